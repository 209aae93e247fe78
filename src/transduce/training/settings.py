"""The settings of a run. Each table of its configuration file has the arguments of one constructor."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Literal

from transduce.compute.precision import PrecisionSetting
from transduce.core import config
from transduce.core.config.checking import UNKNOWN
from transduce.core.errors import UserError
from transduce.core.protocols import AnyObjective, AnySearch, Deriving, Measuring, Model, TextContext, can
from transduce.core.registry import service
from transduce.core.types import Factory, Facts
from transduce.data.batching import Batching
from transduce.data.settings import Data
from transduce.data.streams import Streams
from transduce.metrics.base import metric
from transduce.models.compatibility import check_fit
from transduce.objectives.cross_entropy import CrossEntropy
from transduce.objectives.forcing import TeacherForcing
from transduce.runs.ancestry import Distillation, Init
from transduce.search.beam import Beam
from transduce.search.greedy import quickest
from transduce.training.augmentation import Augmentation
from transduce.training.budget import Budget, Clock
from transduce.training.counted import Counted
from transduce.training.hallucination import Hallucination
from transduce.training.optimization import Adam, Adapter, InverseSquareRoot, Optimizer, Schedule, check_at_least
from transduce.training.tuning import Tuning


@dataclass(frozen=True)
class Validation:
    """Computes the loss and the metrics on ``data.valid``, ``times`` times in the budget, evenly spaced. If ``every``
    is set, it does so after each ``every`` updates instead. The model at the end of training is always validated.

    The first metric chooses the best checkpoint. If there are no metrics, the loss chooses it. Training stops after
    ``patience`` validations in a row without a better one. Metrics need the outputs of ``search`` for ``examples``
    examples, evenly spaced (default: all). The default search has the filters and the ``max_length`` of the run's own
    search, and is the quickest that has them: greedy search for a beam, the best path for a prefix beam. The loss then
    uses about the same share of the data. If there are no metrics, it uses all data.

    If the budget has minutes, all validations together take at most a ``share`` of the time so far, and with those at
    the end of training at most this share of all the time. A budget that also has updates ends when its updates do, so
    the share is a share of the time that they need. A validation whose search would take longer computes only the loss,
    and does not count for ``patience``. Its model can be the best only until a validation with a search. If even the
    loss would take longer, the validation is left out. One validation takes at most a third of the share. If it would
    take longer, it uses fewer examples from the middle of the budget on. They are evenly spaced: as many as fit into
    the time, but at least 64. If 64 do not fit, all validations compute only the loss. The time of a search is measured
    on 8 examples, and then on more while there is time. A budget that has only updates or epochs has no such limits,
    because an interrupted run must end with the same result bit for bit.
    """

    times: int = 10
    every: int | None = None
    share: float = 0.1
    metrics: tuple[str, ...] = ()
    search: AnySearch | None = None
    examples: int | None = None
    patience: int | None = None

    def __post_init__(self) -> None:
        check_at_least("training.validation.times", self.times, 0)
        if not 0 < self.share <= 1:
            raise UserError(f"training.validation.share = {self.share}: more than 0 and at most 1 was expected")
        for name in ("every", "examples", "patience"):
            check_at_least(f"training.validation.{name}", getattr(self, name), 1)


@dataclass(frozen=True)
class Training:
    """The training of a run. One loop trains every model that learns by gradients. Passes train a counted model.

    The first of the limits ``steps`` (updates), ``epochs`` and ``minutes`` ends training. The ``clock`` "processor"
    counts the minutes of processor time that this run uses, divided by its threads, so other programs do not matter. Do
    not use it with a GPU.

    ``batching`` forms the batches, and ``accumulate`` of them make one update. If a language model has ``streams``, it
    reads the text as one document instead, and ``batching`` has no effect. The ``augmentation`` list changes the source
    signals, or the texts, in its order, anew in each epoch. ``robust`` adds the augmentation of that name, and a source
    of text is read in lower case. ``hallucination`` invents words in texts (None: no
    words). ``clip`` bounds the gradient's norm (0: no bound). The ``precision`` "auto" is bfloat16 if this machine
    computes it faster, otherwise float32. ``freeze`` names modules or parameters ("encoder", "decoder.embedding",
    "*.bias") that keep their values. The ``adapter`` trains little beside the weights of a run that training starts
    from. ``seed`` decides all random numbers.

    The state is saved after every ``checkpoint_every`` updates, and at the end. The default is at each validation, or
    ten times in the budget if there are no validations. At the end, the last ``average`` validated models are averaged
    (1: no average), and the average becomes the best checkpoint if it is better.

    Several processes can train together. If ``parallel`` is "ddp", each has all parameters. If it is "fsdp", each has a
    part of all parameters, gradients and moments, which needs less memory and more communication.

    The training of a counted model ends after a pass that raises the log-probability by at most a share ``gain`` of its
    size; -1 makes all passes.

    ``aligner`` learns a word aligner from the training pairs, at the end, for protected spans. It is kept in the run's
    folder.
    """

    steps: int | None = None
    epochs: float | None = None
    minutes: float | None = None
    clock: Clock = "wall"
    batching: Batching = field(default_factory=Batching)
    streams: Streams | None = None
    augmentation: tuple[Augmentation, ...] = ()
    robust: bool = False
    hallucination: Hallucination | None = None
    accumulate: int = 1
    optimizer: Optimizer = field(default_factory=Adam)
    schedule: Schedule = field(default_factory=InverseSquareRoot)
    clip: float = 1.0
    precision: PrecisionSetting = "auto"
    validation: Validation = field(default_factory=Validation)
    checkpoint_every: int | None = None
    average: int = 1
    freeze: tuple[str, ...] = ()
    adapter: Adapter | None = None
    parallel: Literal["ddp", "fsdp"] = "ddp"
    seed: int = 1
    gain: float = 1e-3
    aligner: bool = False

    @property
    def augmentations(self) -> tuple[Augmentation, ...]:
        """The ``augmentation``, with the one that ``robust`` adds."""
        return (*self.augmentation, service("robust augmentation")()) if self.robust else self.augmentation

    @property
    def budget(self) -> Budget:
        return Budget(self.steps, self.epochs, self.minutes)

    def __post_init__(self) -> None:
        Budget(self.steps, self.epochs, self.minutes)  # raises UserError if there is no limit
        for name in ("accumulate", "average", "checkpoint_every"):
            check_at_least(f"training.{name}", getattr(self, name), 1)
        check_at_least("training.clip", self.clip, 0)
        check_at_least("training.seed", self.seed, 0)
        check_at_least("training.gain", self.gain, -1)


@dataclass(frozen=True)
class Settings:
    """All settings of a run. ``transduce train`` reads them from a TOML file and keeps them in the run directory.

    ``search`` and ``metrics`` are for the trained model: prediction and evaluation use them. ``training.validation``
    has its own search and metrics. ``tuning`` is for phrase-based models. ``context`` is the text before a line that a
    language model reads in evaluation. By default it reads each line alone.

    Raises ConfigError if the objective or a search calls a method that the model lacks. Also raises it for ``tuning``
    of another model, and for a setting that needs gradients if the model is counted. Also raises it for data with
    sources that have streams or a context. Raises UserError for a distillation with another objective than
    cross-entropy.
    """

    data: Data
    model: Factory[Model]
    training: Training
    init: Init | None = None
    distillation: Distillation | None = None
    objective: AnyObjective = field(default_factory=CrossEntropy)
    search: AnySearch = field(default_factory=Beam)
    metrics: tuple[str, ...] = ("exact",)
    tuning: Tuning | None = None
    context: TextContext | None = None

    def __post_init__(self) -> None:
        model = self.model_class
        if self.tuning and not can(model, Deriving):
            raise config.ConfigError(
                "tuning", f"{model.__name__} has no weights of features, as a phrase-based model has: leave tuning out"
            )
        check_fit("objective", "Objective", type(self.objective), model)
        if can(model, Counted):
            self._check_counted(model.__name__)
        check_fit("search", "Search", type(self.search), model)
        if self.distillation and not isinstance(self.objective, CrossEntropy):
            raise UserError(
                f"distillation needs the objective cross-entropy, not {type(self.objective).__name__}: "
                "leave out one of them, or train on the outputs of `transduce predict`"
            )
        if self.training.streams:
            self._check_streams()
        if self.training.adapter and self.init is None:
            raise config.ConfigError("training.adapter", "it needs trained weights: start from a run (--init RUN)")
        if self.context and not self.data.units.targets_only:
            raise config.ConfigError(
                "context",
                "only a language model, whose data.units have a target alone, reads a text: leave context out",
            )
        if self.training.validation.metrics:
            check_fit("training.validation.search", "Search", type(self.validation_search), model)

    @property
    def model_class(self) -> type:
        """The class of the model: the constructor of a Spec, or the class itself."""
        model: Any = self.model
        found: type = getattr(model, "constructor", model)
        return found

    @property
    def validation_search(self) -> AnySearch:
        """The search of validations: the one that the settings name, otherwise the quickest with the limits of
        ``search``.
        """
        return self.training.validation.search or quickest(self.search)

    def _check_streams(self) -> None:
        """Raises ConfigError for settings that do not allow streams: data with sources, another objective than
        cross-entropy of the text's own words, and a distillation.
        """
        reason = None
        if not self.data.units.targets_only:
            reason = "only a language model, whose data.units have a target alone, reads a text as one document"
        elif type(self.objective) is not CrossEntropy or self.objective.forcing != TeacherForcing():
            reason = 'the model must read the text\'s own words: set objective = "cross-entropy" without forcing'
        elif self.distillation:
            reason = "a teacher reads each line alone: leave out distillation"
        if reason:
            raise config.ConfigError("training.streams", f"{reason}, or leave streams out")

    def _check_counted(self, model: str) -> None:
        """Raises ConfigError for a setting that needs gradients, because a counted model has none: distillation,
        parts to start from, freezing, augmentation, hallucination, or another objective than those that are
        ``Measuring``.
        """
        given = {
            "objective": not _measures_counted(self.objective),
            "distillation": self.distillation is not None,
            "init.parts": self.init is not None and bool(self.init.parts),
            "training.freeze": bool(self.training.freeze),
            "training.adapter": self.training.adapter is not None,
            "training.streams": self.training.streams is not None,
            "training.augmentation": bool(self.training.augmentation),
            "training.robust": self.training.robust,
            "training.hallucination": self.training.hallucination is not None,
        }
        for key in (key for key, is_set in given.items() if is_set):
            raise config.ConfigError(key, f"{model} is counted, and not trained by gradients: leave {key} out")


def _measures_counted(objective: AnyObjective) -> bool:
    own = "measures_counted" in vars(type(objective))  # a subclass measures something else
    return own and can(type(objective), Measuring) and objective == type(objective)()


def read_settings(table: config.Table) -> Settings:
    """Makes the settings of a run from its table, before the data are read. The model is not built yet, because the
    sizes of the vocabularies are unknown.

    Raises ConfigError if a setting is not valid, and UserError if a metric is unknown or its package is missing. The
    model's constructor checks its own values later.
    """
    unknown: Any = UNKNOWN  # the model is a factory, so its sizes are not needed yet
    settings = config.build(table, Settings, Facts(**{fact.name: unknown for fact in fields(Facts)}))
    if not settings.metrics:
        raise config.ConfigError("metrics", '[]: by what evaluation measures was expected, such as ["exact"]')
    for name in (*settings.training.validation.metrics, *settings.metrics):
        metric(name)
    return settings

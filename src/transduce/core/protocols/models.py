"""The protocols of models, and of the searches, objectives and metrics that use them.

A search, an objective, an inspector and a server know only the protocol of a model, never its class. types.py explains
the letters of the shapes.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NoReturn, Protocol, TypeVar, runtime_checkable

from torch import Tensor

from transduce.core.chain import Trellis
from transduce.core.protocols.parts import Decoder, S
from transduce.core.types import (
    Batch,
    Derivation,
    Emission,
    Example,
    Forecasts,
    Hypothesis,
    Loss,
    Padded,
    PhraseOptions,
    Prediction,
)

M_contra = TypeVar("M_contra", contravariant=True)
Carry = tuple[Tensor, ...] | None
"""What an objective carries from a batch to the next one; None for the first batch."""


class Model(Protocol):
    """The ``nn.Module`` that a configuration's ``model`` table describes.

    It owns a distribution over outputs and follows one of the protocols below, or it is a ``Regressor``.
    """

    training: bool


class Distribution(Model, Protocol):
    """The methods that ``Autoregressive`` and ``Parallel`` share.

    ``start`` returns the first state for a source. ``readout`` turns features [..., D] into logits [..., V]. Callers
    ask for logits only at the positions that they need. If ``candidates`` [C] are given, it returns only the logits of
    these token ids, [..., C], in this order. The result is a new tensor: a search may overwrite it to rule out tokens.
    """

    def start(self, source: Padded) -> object: ...

    def readout(self, output: Any, candidates: Tensor | None = None) -> Tensor: ...


class Autoregressive(Distribution, Protocol[S]):
    """A distribution over outputs, token by token: p(y) = prod_t p(y_t | y_<t, x).

    ``extend`` is one function for teacher forcing (T = the whole target), prefill (T = a prompt) and a search step
    (T = 1). It returns the features of each new position and the state after them. The call consumes the state; use
    ``tree.fork`` first if the old state is needed again.
    """

    def start(self, source: Padded) -> S: ...

    def extend(self, tokens_BT: Tensor, state: S) -> tuple[object, S]: ...


AnyAutoregressive = Autoregressive[Any]
"""An autoregressive model whose state only it looks into."""


class Stepping(Autoregressive[Tensor], Protocol):
    """An autoregressive model whose state [N] is a number for each row, such as an n-gram model.

    States are equal if all later probabilities are equal. State 0 knows nothing of the tokens before. ``step`` returns
    log p(token) [N] and the next state [N]; EOS ends. It does not consume the state.
    """

    def step(self, state_N: Tensor, token_N: Tensor) -> tuple[Tensor, Tensor]: ...


class Parallel(Distribution, Protocol[S]):
    """A distribution over outputs, all tokens at once: p(y) = p(n | x) prod_t p(y_t | t, n, x), n tokens before EOS.

    ``emit`` returns the features of outputs with the given ``lengths`` [N] (without EOS), by default the most probable
    lengths. The call does not consume the state. ``tree.repeat`` lets one source emit outputs of several lengths.
    """

    def start(self, source: Padded) -> S: ...

    def emit(self, state: S, lengths: Tensor | None = None) -> Emission: ...


class Framewise(Model, Protocol):
    """A distribution over outputs through alignments a, which have a symbol or the blank for each frame.

    p(y) is the sum of prod_t p(a_t | t, x) over all alignments that give y after repetitions are merged and blanks are
    removed (Graves et al. 2006). The model is not ``Parallel``, because it gives probabilities for frames and not for
    outputs: the caller sums over alignments or searches among them. The sums exist for each prefix too, so the model
    can also be ``Autoregressive``. Then every search, sampler and mixture works with it.

    ``frames`` returns log-probabilities [B, S, V]. The first ``lengths`` [B] frames are real. The blank is PAD.
    """

    def frames(self, source: Padded) -> Padded: ...


class Joint(Framewise, Protocol[S]):
    """Two distributions over the same outputs from one encoding of the source: a framewise one and a decoder's.

    ``parts`` encodes once. It returns the frames, the decoder and the decoder's first state. ``weights`` are those of
    the decoder and of the frames: the score of an output is the weighted sum of its log-probabilities under both.
    """

    @property
    def weights(self) -> tuple[float, ...]: ...

    def parts(self, source: Padded) -> tuple[Padded, Decoder[S], S]: ...


class Aligner(Model, Protocol):
    """A model of which source position each target position comes from, given both sentences.

    ``align`` returns p(target position t is linked to source position s | source, target) as [B, T, 1 + S]. Column 0 is
    the null word, so target position t's link to source position s is in column 1 + s. The real rows sum to 1. Rows and
    columns of EOS and of padding are 0.
    """

    def align(self, source: Padded, target: Padded) -> Tensor: ...


class TwoWayAligner(Aligner, Protocol):
    """An aligner that also aligns source positions to target positions.

    ``reverse`` returns the aligner of the other direction: ``reverse().align(target, source)`` is [B, S, 1 + T].
    """

    def reverse(self) -> Aligner: ...


class PairModel(Model, Protocol):
    """A model of sentence pairs that gives each side a probability given the other side.

    ``pair_log_prob`` returns log p(target | source) + log p(source | target) of each pair as [B], without the
    probabilities of EOS and of the lengths. Both sides are ids that end with EOS.
    """

    def pair_log_prob(self, source: Padded, target: Padded) -> Tensor: ...


class Deriving(Model, Protocol):
    """A model that writes an output phrase by phrase and scores the derivation. It owns no distribution over outputs.

    The score of a derivation is the sum of its features, weighted by ``weights`` [F]. ``feature_names`` [F] are first
    the names of the options' own features, then ``DERIVED``: features that depend on two neighbouring phrases.
    ``options`` lists the translations of all source phrases. ``language_start`` returns the language model's state [N]
    before the first token, as numbers: states are equal if all later probabilities are equal. ``language_step`` returns
    log p(token) [N] and the next state [N]; EOS ends. ``language_estimate`` guesses the log-probability [O] of the
    first ``length_O`` tokens of each row, although the tokens before them are unknown. ``language_log_prob`` returns
    the log-probability [B] of whole targets, which end with EOS. All logarithms are natural.
    """

    feature_names: tuple[str, ...]
    weights: Tensor

    def options(self, source: Padded) -> PhraseOptions: ...

    def language_start(self, rows: int) -> Tensor: ...

    def language_step(self, state_N: Tensor, token_N: Tensor) -> tuple[Tensor, Tensor]: ...

    def language_estimate(self, tokens_OP: Tensor, length_O: Tensor) -> Tensor: ...

    def language_log_prob(self, target: Padded) -> Tensor: ...


DERIVED = (
    "distortion",
    "monotone-before",
    "swap-before",
    "discontinuous-before",
    "monotone-after",
    "swap-after",
    "discontinuous-after",
    "language-model",
)
"""The features of a derivation that depend on two neighbouring phrases: minus the number of source tokens between them,
log-probabilities of their orientation by the later and by the earlier phrase, and log p of a target token."""


class Several(Model, Protocol):
    """A model that consists of several, its ``members``, which read the same source and write the same vocabulary."""

    def members(self) -> Sequence[Model]: ...


class Mixed(Autoregressive[Any], Protocol):
    """A model that mixes the probabilities of the next token by several models, ``used()``.

    ``log_probs`` yields log p [..., V] of each of them from the features of positions. ``shares`` says how much each of
    M models does for T tokens [M, T], given its log-probabilities of the tokens, ``own_MT``, and of the strongest other
    tokens, ``other_MT``. ``meaning`` says in words what a share is.
    """

    @property
    def meaning(self) -> str: ...

    def used(self) -> Sequence[Any]: ...

    def log_probs(self, output: Any) -> Iterator[Tensor]: ...

    def shares(self, own_MT: Tensor, other_MT: Tensor) -> Tensor: ...


class Regressor(Model, Protocol):
    """A model that predicts numbers: at most ``steps`` steps of ``channels`` numbers each.

    ``predict`` returns [B, T, channels], where T is the largest of ``steps_B`` [B] and at least 1. The first
    ``steps_B`` steps of each row are real. A row's numbers do not depend on the other rows or on their lengths.
    """

    steps: int
    channels: int

    def predict(self, source: Padded, steps_B: Tensor) -> Tensor: ...


class Density(Regressor, Protocol):
    """A regressor that gives a probability density of its numbers.

    ``distribution`` takes what ``predict`` takes. It returns a normal distribution of each number [B, T, channels],
    given the source alone; its means are what ``predict`` returns.

    ``log_density`` returns [B, N], the log-density (natural logarithm) of each number of ``target`` [B, N + 1] given
    the source and all numbers before it: a step's channels follow each other. It is 0 where the target is padding, EOS
    or missing (NaN). The sum over a row is the log-density of its target.
    """

    def distribution(self, source: Padded, steps_B: Tensor) -> Forecasts: ...

    def log_density(self, source: Padded, target: Padded) -> Tensor: ...


class Chain(Model, Protocol):
    """A distribution over label sequences with one label for each source token: p(y) = exp(score) / Z.

    Each label depends on one or more labels before it. ``trellis`` returns the scores. Labels are ids of the target
    vocabulary.
    """

    def trellis(self, source: Padded) -> Trellis: ...


class Searching(Model, Protocol):
    """A model of another engine, which searches by itself.

    ``search`` takes a search of this package for its options, and returns what that returns; ``force`` likewise. Raises
    UserError for a search that the engine does not have.
    """

    def search(self, search: AnySearch, source: Padded, prefix: Padded | None = None) -> list[list[Hypothesis]]: ...

    def force(self, source: Padded, target: Padded) -> list[Hypothesis]: ...


def verbs(way: type) -> list[str]:
    """The names of the public methods and properties that a protocol, the class ``way``, defines or inherits."""
    return list(dict.fromkeys(verb for each in reversed(way.__mro__) for verb in vars(each) if verb[0] != "_"))


def lacking_verbs(model: type, way: type) -> list[str]:
    """The names in ``verbs(way)`` that the class ``model`` does not have."""
    return [verb for verb in verbs(way) if not hasattr(model, verb)]


def lacking_for(user: type, model: type) -> list[str]:
    """The names of the methods that a search or an objective (the class ``user``) requires and the class ``model``
    lacks.

    The annotation of the parameter ``model`` of ``user.__call__`` names the required protocol. If there is no
    annotation, nothing is required. A ``Searching`` model lacks nothing.
    """
    if can(model, Searching):
        return []
    asked = typing.get_type_hints(user.__call__).get("model")
    way = typing.get_origin(asked) or asked
    return lacking_verbs(model, way) if isinstance(way, type) else []


def can(model: type, way: type) -> bool:
    """True if the class ``model`` has all methods in ``verbs(way)``."""
    return not lacking_verbs(model, way)


class Objective(Protocol[M_contra]):
    """The function that training minimises. Returns the loss, and the ``carry`` for the next batch.

    ``progress`` in [0, 1] is for schedules. ``carry`` is None for the first batch. Checkpoints save it, so a resumed
    training passes it to the next batch. Validation begins with None, too.
    """

    def __call__(self, model: M_contra, batch: Batch, progress: float, carry: Carry) -> tuple[Loss, Carry]: ...


AnyObjective = Objective[NoReturn]
"""An objective for a kind of model that its holder does not know. Only a caller that has checked the model calls it."""


@runtime_checkable
class Measuring(Protocol):
    """An objective that, with its defaults, can also measure a counted model: ``measures_counted`` is True."""

    measures_counted: ClassVar[bool]


@runtime_checkable
class ComparesTexts(Protocol):
    """An objective that compares texts. ``reading`` returns a copy of it that turns ids into text with ``decode``."""

    def reading(self, decode: Callable[[Sequence[int]], str]) -> AnyObjective: ...


@runtime_checkable
class ChecksPairs(Protocol):
    """An objective that cannot learn from every pair. ``check`` returns lines for people, before training: which share
    of the pairs of each split it leaves out, and why.

    ``splits`` are encoded pairs by the split's name. Raises UserError if no pair of the training set would be left, or
    if the objective does not allow leaving out.
    """

    def check(self, model: Any, splits: Mapping[str, object]) -> list[str]: ...


class Search(Protocol[M_contra]):
    """Finds outputs: the call returns the hypotheses of each source row, best first. A search is a frozen dataclass,
    whose fields are its options.

    ``prefix`` has the ids [B, P] that the outputs of each row start with: a language tag, a prompt or a text that
    already exists. Length 0 is no prefix. Outputs contain it, and their ``log_prob`` counts it. A search that cannot go
    on from a prefix raises UserError. ``force`` does not search. It returns one hypothesis per row, with the model's
    own log-probability of ``target``, whose ids [B, T] end with EOS. ``resized`` returns a search with the same other
    options, for another beam ``size`` and number ``nbest`` of results; greedy search becomes a beam. A number that is
    None stays, unless the other one is too small or too large for it. Raises UserError for numbers that the search
    cannot have.
    """

    def __call__(
        self, model: M_contra, source: Padded, prefix: Padded | None = None
    ) -> list[list[Hypothesis]] | list[list[Derivation]]: ...

    def force(self, model: M_contra, source: Padded, target: Padded) -> list[Hypothesis]: ...

    def resized(self, size: int | None = None, nbest: int | None = None) -> Search[M_contra]: ...


AnySearch = Search[NoReturn]
"""A search for a kind of model that its holder does not know. Only a caller that has checked the model calls it."""


class TextContext(Protocol):
    """How much of the text before a line a language model reads when it scores the line.

    ``force`` scores the lines of a text, in order: one hypothesis for each, as ``Search.force`` returns it. ``source``
    has one row, for the model's ``start``. ``signature`` names the context in the signatures of metrics. ``limit`` is
    for writing: if the model would have read ``count`` tokens, it starts anew with the last ``limit(count)`` of them;
    None lets it go on.
    """

    @property
    def signature(self) -> str: ...

    def force(self, model: Any, source: Padded, lines: Sequence[Sequence[int]]) -> list[Hypothesis]: ...

    def limit(self, count: int) -> int | None: ...


class Metric(Protocol):
    """A corpus score that is a function of summed statistics. Bootstrap and several processes need nothing more.

    ``statistics`` returns the numbers of one example. They are summed over the corpus, and ``score`` maps the sums to
    one number. A metric with ``needs_forcing`` measures the teacher-forced first reference (``Prediction.forced_...``)
    instead of the output.
    """

    name: str
    higher_is_better: bool
    needs_forcing: bool

    @property
    def signature(self) -> str: ...

    def statistics(self, prediction: Prediction, example: Example) -> Sequence[float]: ...

    def score(self, total: Sequence[float]) -> float: ...

"""Starts a run from another run: with its vocabularies, and with its weights that fit the new model."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from transduce.answers.transducer import Transducer
from transduce.core import config
from transduce.core.config.errors import Table
from transduce.core.errors import UserError
from transduce.core.protocols import can
from transduce.core.registry import service
from transduce.core.types import SPECIALS, Facts
from transduce.data.preparation import NOTHING, Prepared, Tokenizers, prepare
from transduce.data.settings import Data
from transduce.data.unknown import Unknown
from transduce.models.building import build_model
from transduce.models.weights import summarise
from transduce.runs.ancestry import Init, Part
from transduce.runs.layout import find_weights
from transduce.runs.loading import load
from transduce.runs.training_state import read_fingerprints
from transduce.training.counted import Counted
from transduce.training.kept_vocabulary import prepare_writable


@dataclass
class Inheritance:
    """The report of the parameters that a new model, or a part of it, took from another run. The keys and lists have
    names of parameters.

    ``init`` are the settings, and ``heading`` is the first line for people. ``loaded`` has the size of each parameter
    that was copied whole. ``by_token`` has two numbers for a parameter: the copied tokens, and all tokens of the new
    parameter. ``from_parts`` has the number of its new tokens that start from the mean of old ones. ``misfits`` has the
    shape in the other run, then the shape in the new model. ``fresh`` parameters are only in the new model, and
    ``unused`` parameters only in the other run.
    """

    init: Init | Part
    heading: str
    loaded: dict[str, int] = field(default_factory=dict)
    by_token: dict[str, tuple[int, int]] = field(default_factory=dict)
    from_parts: dict[str, int] = field(default_factory=dict)
    misfits: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=dict)
    fresh: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """The report as lines for people. If all parameters of a module are in ``loaded``, in ``fresh`` or in
        ``unused``, the line names the module instead.
        """
        own = [*self.loaded, *self.by_token, *self.misfits, *self.fresh]
        theirs = [*self.loaded, *self.by_token, *self.misfits, *self.unused]
        return [
            self.heading,
            *_line("loaded", summarise(self.loaded, own), f", {sum(self.loaded.values()):,} parameters"),
            *_line("by token", [f"{name} ({some:,} of {every:,})" for name, (some, every) in self.by_token.items()]),
            *_line("new tokens from their parts", [f"{name} ({n:,})" for name, n in self.from_parts.items() if n]),
            *_line(
                "of another shape",
                [f"{name} {there} there, {here} here" for name, (there, here) in self.misfits.items()],
            ),
            *_line("fresh", summarise(self.fresh, own)),
            *_line("not used", summarise(self.unused, theirs)),
        ]

    def as_json(self) -> Table:
        """The report as values for JSON, for the file init.json."""
        told = {name: value for name, value in asdict(self).items() if name != "heading"}
        given = {name: value for name, value in asdict(self.init).items() if value not in (None, ())}
        return told | {"init": {**given, "run": str(self.init.run)}}


def _line(what: str, names: list[str], more: str = "") -> Iterator[str]:
    if names:
        yield f"  {what}: {', '.join(names)}{more}"


class Inherited(Protocol):
    """The report of what a new model took from one run or from several."""

    def lines(self) -> list[str]: ...

    def as_json(self) -> Table: ...


class Ancestor(Protocol):
    """The run, or the runs, that a new run starts from. ``Predecessor`` describes the methods."""

    def units_for(self, data: Data, own: config.Table) -> config.Table | None: ...

    def prepare(self, data: Data, cache: Path) -> Prepared: ...

    def same_counts(self, table: config.Table, prepared: Prepared) -> nn.Module | None: ...

    def hand_over(self, model: nn.Module, table: config.Table, tokenizers: Tokenizers) -> Inherited: ...


class Predecessor:
    """The run that a new run starts from, loaded from the settings ``[init]`` into the processor's memory. Raises
    FileNotFoundError if there is no such run, or if it lacks the checkpoint.
    """

    def __init__(self, init: Init) -> None:
        assert init.run is not None  # otherwise the settings have parts: the service "parts to start from"
        self.init = init
        self.transducer = load(init.run, init.checkpoint, "cpu")
        self.tokenizers = self.transducer.tokenizers
        self.lacking = Unknown()  # tokens of training targets for which "keep" became "extend"

    def units_for(self, data: Data, own: config.Table) -> config.Table | None:
        """The ``data.units`` that the new run gets from the predecessor. If ``init.vocabulary`` is "source", only the
        source's units come from it. If it is "own", the result is None. ``data`` are the data of the new run, and
        ``own`` is the table of its own units.

        A new run without sources gets only the units of the target, and then ``tokenizers`` have no source. Raises
        UserError if the new run has sources and the predecessor has none.
        """
        if self.init.vocabulary == "own":
            return None
        units: config.Table = self.transducer.settings["data"]["units"]
        if self.init.vocabulary == "source":
            self._check_source(data)
            return {**own, "source": units.get("joint") or units["source"]}
        if not data.units.targets_only:
            if not self.transducer.conditional:
                raise UserError(
                    f"init.run: {self.init.run} was trained without sources and this run has some, so it cannot keep "
                    'its vocabularies; set init.vocabulary = "own"'
                )
            return units
        if self.transducer.conditional:
            self.tokenizers = Tokenizers(NOTHING.learn(()), self.tokenizers.target)
            units = {**units, "target": units.get("joint") or units["target"]}
            units = {
                name: value for name, value in units.items() if name not in ("source", "joint", "source_lowercase")
            }
        return units

    def _check_source(self, data: Data) -> None:
        """Raises UserError if one of the two runs has no source of its own."""
        if not self.transducer.conditional or data.units.source is None:
            which = self.init.run if not self.transducer.conditional else "this run (data.units.source)"
            raise UserError(
                f'init.vocabulary = "source", and {which} has no unit of a source: set it to "keep" or "own"'
            )

    def prepare(self, data: Data, cache: Path) -> Prepared:
        """The data of the new run, encoded with the vocabularies that ``init.vocabulary`` chooses:

        - "keep": the predecessor's vocabularies. They become "extend" if training targets have tokens that they lack
          (``prepare_writable``, which raises UserError if they cannot grow).
        - "own": vocabularies that are learned from the new data.
        - "extend": the predecessor's vocabularies with the tokens that only the new data have.
        - "source": the predecessor's source vocabulary, and a target vocabulary that is learned from the new data.
        """
        if self.init.vocabulary == "keep":
            assert self.init.run is not None
            prepared, self.lacking = prepare_writable(data, cache, self.tokenizers, self.init.run)
            if self.lacking:
                self.init = replace(self.init, vocabulary="extend")
            return prepared
        own = prepare(data, cache)
        if self.init.vocabulary == "source":
            return prepare(data, cache, Tokenizers(self.tokenizers.source, own.tokenizers.target))
        return own if self.init.vocabulary == "own" else prepare(data, cache, self.tokenizers.extended(own.tokenizers))

    def same_counts(self, table: config.Table, prepared: Prepared) -> nn.Module | None:
        """The predecessor's model, if it is counted and a part of the new model would have the same counts. So the
        settings of the part and of the data, the rule that ends passes, and the training files are the same. Otherwise
        None. ``table`` has the new run's settings, and ``prepared`` its data.
        """
        old, model = self.transducer.settings, self.transducer.model
        rules = [(each["data"], each["training"]["gain"]) for each in (old, table)]
        alike = rules[0] == rules[1] and old["model"] in _tables(table["model"])
        if not (alike and can(type(model), Counted)):
            return None
        assert self.init.run is not None
        before = read_fingerprints(find_weights(self.init.run, self.init.checkpoint).parent) or {}
        return model if before.get("train") == prepared.fingerprints["train"] else None

    @torch.no_grad()
    def hand_over(self, model: nn.Module, table: config.Table, tokenizers: Tokenizers) -> Inheritance:
        """Copies the predecessor's weights into the new ``model``, in place, if they fit. ``table`` has the new model's
        settings, and ``tokenizers`` its vocabularies. Returns the report of the copied and the other parameters.

        A parameter fits if its name and shape are the same. If vocabularies differ, the size of an axis that runs over
        a vocabulary may differ. Then only the entries of tokens that both vocabularies have are copied. Counts are no
        weights, so a neural model takes only the vocabularies of a counted model. Raises UserError if no weights fit,
        and, for a counted model, if no vocabulary fits.
        """
        vocabulary = {
            "keep": "its vocabularies",
            "extend": "its vocabularies, extended",
            "source": "its vocabulary of the source",
            "own": "vocabularies of its own",
        }[self.init.vocabulary]
        heading = f"starts from {self.init.run} ({self.init.checkpoint}), with {vocabulary}"
        if self.lacking:
            heading += f', as by init.vocabulary = "extend": of the targets, {self.lacking}'
        found = Inheritance(self.init, heading)
        given = named_parameters(self.transducer.model)
        copy_weights(found, named_parameters(model), given, axes_of(self.transducer, table, tokenizers))
        vocabularies_alone = can(type(self.transducer.model), Counted) and self.init.vocabulary != "own"
        if not found.loaded and not found.by_token and not vocabularies_alone:
            raise UserError(
                f"init.run: nothing of {self.init.run} fits this model, by name and shape:\n"
                + "\n".join(found.lines()[1:])
                + "\nmake the model more like that of its config.toml, or train it without init"
            )
        return found


def _tables(table: config.Table) -> Iterator[config.Table]:
    """The tables inside a table, at every depth."""
    for value in table.values():
        if isinstance(value, dict):
            yield value
            yield from _tables(value)


def axes_of(old: Transducer, table: config.Table, tokenizers: Tokenizers) -> tuple[dict[str, Axis], dict[str, Axis]]:
    """The vocabulary axes of the new model and of an ``old`` run's model, each by the name of the parameter. ``table``
    has the new model's settings, and ``tokenizers`` its vocabularies. If the vocabularies are equal, both dicts are
    empty, because parameters fit as a whole.
    """
    if tokenizers.fingerprints == old.tokenizers.fingerprints:
        return {}, {}
    new, before = vocabulary_axes(table, tokenizers), vocabulary_axes(old.settings["model"], old.tokenizers)
    begun: dict[tuple[Hashable, ...], Mapping[Hashable, Sequence[int]]] = {}
    for known, larger in zip(old.tokenizers.both, tokenizers.both, strict=True):
        more = {*larger.entries}.difference(known.entries)
        if more and {*known.entries} <= {*larger.entries}:
            begun[larger.entries] = service("parts of tokens")(known, more)
    return {name: replace(axis, parts=begun.get(axis.entries)) for name, axis in new.items()}, before


def named_parameters(model: nn.Module) -> dict[str, Tensor]:
    """The parameters by name. A shared parameter has several names. Counted parts have none: their tables fit only
    together, and are counted on the new pairs, or taken as a whole (``Predecessor.same_counts``).
    """
    counted = tuple(f".{name}.".replace("..", ".") for name, each in model.named_modules() if can(type(each), Counted))
    every = model.named_parameters(remove_duplicate=False)
    return {name: each for name, each in every if not f".{name}".startswith(counted)}


def copy_weights(
    found: Inheritance,
    own: Mapping[str, Tensor],
    given: Mapping[str, Tensor],
    axes: tuple[Mapping[str, Axis], Mapping[str, Axis]],
    names: Mapping[str, str] | None = None,
) -> None:
    """Copies the parameters ``given`` of one model into the parameters ``own`` of a new model, in place, if they fit.
    Adds the copied and the other parameters to the report ``found``.

    ``axes`` are the vocabulary axes of the new model and of the other one, by name. ``names`` has the names of the new
    parameters that may be copied, and the name of each in the other model. By default each has its own name. A shared
    parameter is copied by the first of its names that the other model has.
    """
    here, there = axes
    names = {name: name for name in own} if names is None else names
    every: dict[Tensor, list[str]] = {}
    for name in names:
        every.setdefault(own[name], []).append(name)
    used = set()
    for new, of_one in every.items():
        known = [name for name in of_one if names[name] in given]
        if not known:
            found.fresh.append(of_one[0])
            continue
        name = known[0]
        old = given[names[name]]
        used.add(old)
        axis, other = here.get(name), there.get(names[name])
        if _shape_without_vocabulary(new, axis) != _shape_without_vocabulary(old, other):
            found.misfits[name] = (tuple(old.shape), tuple(new.shape))
        elif axis == other and new.shape == old.shape:
            new.copy_(old)
            found.loaded[name] = new.numel()
        elif axis and other:
            found.by_token[name] = (_copy_tokens(new, axis, old, other), len(axis.entries))
            if axis.parts is not None:
                found.from_parts[name] = _begin_new_tokens(new, axis, old, other)
    first: dict[Tensor, str] = {}
    for name, old in given.items():
        first.setdefault(old, name)
    found.unused += [name for old, name in first.items() if old not in used]


# ------------------------------------------------------------- vocabularies


@dataclass(frozen=True)
class Axis:
    """The axis of a parameter that runs over a vocabulary: its index (``number``), and the token of each index along
    it. If the vocabulary is an old one that has grown, ``parts`` has the old ids that new tokens start from.
    """

    number: int
    entries: tuple[Hashable, ...]
    parts: Mapping[Hashable, Sequence[int]] | None = field(default=None, compare=False)


def vocabulary_axes(table: config.Table, tokenizers: Tokenizers) -> dict[str, Axis]:
    """Finds the axis of each parameter that runs over a vocabulary, for the model with the settings ``table``. The
    result has the parameter's name and its ``Axis``. Parameters without such an axis are left out.

    Models do not declare these axes, so this function finds them by their growth. It makes the model twice, without
    memory for its weights. The second model has one more source token and two more target tokens (one if both sides
    share a vocabulary). If the source has known words, it also has three more of them. So the growth of an axis tells
    its vocabulary.
    """
    facts, source, target = tokenizers.facts, tokenizers.source.entries, tokenizers.target.entries
    spelling, words = source[: facts.source_vocabulary], source[facts.source_vocabulary :]
    more = Facts(1, 1 if tokenizers.joint else 2, 0, 3 if words else 0)
    sides = {more.source_vocabulary: spelling, more.target_vocabulary: target, more.source_words: ("unknown", *words)}
    grown: dict[str, Any] = {name: size + more.sizes[name] for name, size in facts.sizes.items()}
    shapes, larger = _shapes(table, facts), _shapes(table, replace(facts, **grown))
    return {
        name: Axis(number, sides.get(after - before, ()))
        for name, shape in larger.items()
        for number, (before, after) in enumerate(zip(shapes[name], shape, strict=True))
        if after != before
    }


def _shapes(table: config.Table, facts: Facts) -> dict[str, tuple[int, ...]]:
    """The shape of each parameter, by name, of a model with the settings ``table`` and these ``facts``. Allocates no
    weights.
    """
    with torch.device("meta"):
        model = build_model(_without_facts(table), facts)
    return {name: tuple(parameter.shape) for name, parameter in model.named_parameters(remove_duplicate=False)}


def _without_facts(value: object) -> Any:
    """A resolved table without the values from the data: the keys of ``Facts`` are left out at every depth."""
    if isinstance(value, dict):
        known = {fact.name for fact in fields(Facts)}
        return {key: _without_facts(inner) for key, inner in value.items() if key not in known}
    return [_without_facts(inner) for inner in value] if isinstance(value, list) else value


def _shape_without_vocabulary(tensor: Tensor, axis: Axis | None) -> tuple[int | None, ...]:
    """The shape, with None for the size of the vocabulary axis."""
    return tuple(None if axis and number == axis.number else size for number, size in enumerate(tensor.shape))


def _copy_tokens(own: Tensor, axis: Axis, given: Tensor, other: Axis) -> int:
    """Copies the entries of tokens that both vocabularies have from ``given`` into ``own``, in place. Returns the
    number of these tokens.
    """
    places = {entry: place for place, entry in enumerate(other.entries)}
    shared = [(place, places[entry]) for place, entry in enumerate(axis.entries) if entry in places]
    here, there = torch.tensor(shared, dtype=torch.long).view(-1, 2).unbind(1)
    own.index_copy_(axis.number, here, given.index_select(other.number, there))
    return len(shared)


def _begin_new_tokens(own: Tensor, axis: Axis, given: Tensor, other: Axis) -> int:
    """Begins the entries of tokens that an old vocabulary lacked, in place: with the mean of the token's parts, and
    without parts with the mean of all old tokens plus the entry's own first value. Returns the number of those with
    parts.
    """
    own, given = own.movedim(axis.number, 0), given.movedim(other.number, 0)
    old, begun, mean = {*other.entries}, 0, given[len(SPECIALS) :].mean(0)
    for place, entry in enumerate(axis.entries):
        if entry in old:
            continue
        numbers = (axis.parts or {}).get(entry)
        begun += numbers is not None
        own[place] = given[list(numbers)].mean(0) if numbers else own[place] + mean
    return begun

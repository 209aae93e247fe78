"""The contracts of this package: the parts that searches call at each step, and optional methods of searches.

B sources, K hypotheses of each, N = B * K rows, T tokens, V vocabulary, C candidate continuations of a source. The type
variable S is a follower's state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

from torch import Tensor

from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.protocols import AnyAutoregressive, Autoregressive, S, Search
from transduce.core.types import EOS, Hypothesis, Padded

M = TypeVar("M")  # a model
M_contra = TypeVar("M_contra", contravariant=True)
R = TypeVar("R", bound=Any)  # a search: a dataclass with the fields size and nbest


class Follower(Protocol[S]):
    """Follows a search: it keeps a state for each hypothesis and reads each token that the search writes.

    ``start`` returns the first state, with one row per source. ``extend`` returns the state after the next tokens of
    each row: a whole prefix [N, T], or one step with T = 1. BOS is never among these tokens. The state is a tree
    (tree.py). The search selects, repeats and reorders its rows together with the rows of the model's state.
    """

    def start(self, source: Padded) -> S: ...

    def extend(self, tokens_NT: Tensor, state: S) -> S: ...


class Stateless:
    """A follower without a state."""

    staggers = True

    def start(self, source: Padded) -> None:
        return None

    def extend(self, tokens_NT: Tensor, state: None) -> None:
        return None


class Filter(Follower[S], Protocol[S]):
    """Takes the scores [N, V] of next tokens and returns them lowered: minus infinity forbids a token.

    A filter may write into ``scores_NV``. Scores are log-probabilities minus the penalties of earlier filters. A filter
    must not raise a score, because a beam stops when no active hypothesis can still win. The result for one row must
    not depend on other rows. If all filters together forbid every token, the row ends and ranks behind rows with an
    allowed token. Filters read the tokens of a forced prefix. They cannot change these tokens, nor the EOS at the
    search's ``max_length``.
    """

    def __call__(self, scores_NV: Tensor, state: S) -> Tensor: ...


@dataclass(frozen=True)
class Continuations:
    """The candidate continuations of each source, and which of them finish or stay active.

    ``total_BC`` is the score of the whole hypothesis, minus infinity if there is no such candidate. ``origin_BC`` is
    the place (0 to K - 1) of the hypothesis that the candidate continues, and ``token_BC`` the token that it adds.
    ``ended_BC`` is True for candidates that become finished hypotheses. ``live_BK`` are the indices (0 to C - 1) of the
    candidates that form the next beam. A candidate in neither is pruned. If ``live_BK`` points to a candidate that adds
    EOS, that place of the next beam is empty.
    """

    total_BC: Tensor
    origin_BC: Tensor
    token_BC: Tensor
    ended_BC: Tensor
    live_BK: Tensor

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return self.total_BC, self.origin_BC, self.token_BC, self.ended_BC, self.live_BK

    @cached_property
    def live_total_BK(self) -> Tensor:
        """The scores [B, K] of the next beam, minus infinity at empty places."""
        return self.total_BC.masked_fill(self.token_BC == EOS, float("-inf")).gather(1, self.live_BK)


class Allocation(Follower[S], Protocol[S]):
    """Chooses which continuations get the K places of a beam.

    The call takes the scores of next tokens, the totals of the hypotheses so far (float64) and the follower's state.
    The total of a continuation, in float64, is ``total_BK[b, k] + scores_BKV[b, k, v]``. An allocation must not write
    into these tensors.

    ``first`` returns the places (0 to ``size`` - 1) that are active in the first step. All hypotheses of a source start
    equal, so two places with the same treatment would find every hypothesis twice. ``check`` raises UserError if a beam
    of ``size`` cannot be allocated.
    """

    def check(self, size: int) -> None: ...

    def first(self, size: int) -> list[int]: ...

    def __call__(self, scores_BKV: Tensor, total_BK: Tensor, state: S) -> Continuations: ...


Followers = tuple[Follower[Any], ...]
Filters = tuple[Filter[Any], ...]
AnyAllocation = Allocation[Any]
"""Each follower has a state of its own type. Only the follower itself looks into it."""


class Ranking(Protocol):
    """The score of a finished hypothesis (higher is better), from its log-probability, its length and its source's
    length.

    Both lengths are in tokens and count EOS. The source's length is 0 if the source is not a sequence. The score must
    rise with the log-probability. As a function of the length it must rise everywhere or fall everywhere, because a
    beam stops when neither the shortest nor the longest continuation can win.
    """

    def __call__(self, log_prob: float, length: int, source_length: int) -> float: ...


class Truncation(Protocol):
    """Takes the probabilities [N, V] of all tokens and returns the smallest probability [N, 1] that sampling keeps.

    Sampling keeps every token of this probability or a higher one. So the result must not exceed a row's largest
    probability.
    """

    def __call__(self, p_NV: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Expansion:
    """One step of a beam: its candidates, the log-probability [B, C] of each candidate's token, and the source of each
    of the B rows. Finished sources are left out.

    ``candidates.origin_BC`` are indices into the previous step's ``candidates.live_BK``. ``length`` is the length in
    tokens of the candidates, with the token of this step. In the first step, ``begun_BT`` are the forced tokens that
    the search wrote before; T is the length of the shortest prefix. It is None in all other steps.
    """

    length: int
    source_B: list[int]
    candidates: Continuations
    log_prob_BC: Tensor
    begun_BT: Tensor | None = None


# ------------------------------------------------------- sources that enter and leave


def staggers(follower: object) -> bool:
    """True if rows of different ages can share one state of this follower, joined with ``tree.join``. The class
    attribute ``staggers`` says so; without it, the result is False.
    """
    return bool(getattr(follower, "staggers", False))


Finished = list[tuple[int, list[Hypothesis]]]
"""The sources that a step has finished: pairs of a source's key and its hypotheses, best first."""
G = TypeVar("G", bound="Group")


@runtime_checkable
class Group(Protocol):
    """The state of a running search between two steps: a batch of sources, and their hypotheses so far. It is a value
    that does not change; ``Continuous`` returns the next one.

    ``active`` has the keys of the sources that are not finished. ``without`` returns the group after the sources with
    these keys were dropped.
    """

    @property
    def active(self) -> list[int]: ...

    def without(self: G, keys: Collection[int]) -> G: ...


@runtime_checkable
class Continuous(Protocol[G]):
    """A search that can stop after each step, so that sources enter and leave its batch.

    ``staggered`` is False if sources of different ages cannot share a batch with these options. Then ``join`` is not
    available. ``enter`` begins with the sources and does the first step. A source's key is a number that no other
    source in the batch has. ``prefix`` is the same as in ``Search``. ``step`` does the next step. Both return the group
    and the sources that have finished. ``leave`` removes finished sources from the batch if that saves more than it
    costs. ``join`` removes all finished sources and joins several batches into one. A call consumes the model's state
    in its group (``Autoregressive.extend``). A group without active sources cannot be stepped or joined.

    The hypotheses of a source do not depend on the other sources, up to rounding.
    """

    @property
    def staggered(self) -> bool: ...

    def enter(
        self, model: AnyAutoregressive, source: Padded, keys: Sequence[int], prefix: Padded | None = None
    ) -> tuple[G, Finished]: ...

    def step(self, model: AnyAutoregressive, group: G) -> tuple[G, Finished]: ...

    def leave(self, group: G) -> G: ...

    def join(self, groups: Sequence[G]) -> G: ...


def to_the_end(
    search: Continuous[G], model: Autoregressive[S], source: Padded, prefix: Padded | None
) -> list[list[Hypothesis]]:
    """The hypotheses of each source, best first. The search enters all sources at once and steps to the end."""
    group, finished = search.enter(model, source, range(tree.rows(source)), prefix)
    found = dict(finished)
    while group.active:
        group, finished = search.step(model, search.leave(group) if finished else group)
        found.update(finished)
    return [found[key] for key in range(len(found))]


class Observer(Protocol):
    """Receives each step of a beam. It must read the tensors before it returns, because the search reuses them."""

    def __call__(self, expansion: Expansion) -> None: ...


@runtime_checkable
class Streaming(Protocol[M_contra]):
    """A search that knows the first tokens of an output before the rest.

    ``stream`` takes one source. It yields tuples of tokens: the beginning of the best output that no later step can
    change. Each tuple starts with the one before, and the last tuple is the whole output.
    """

    def stream(self, model: M_contra, source: Padded, prefix: Padded | None = None) -> Iterator[tuple[int, ...]]: ...


def stream(search: Search[M], model: M, source: Padded, prefix: Padded | None = None) -> Iterator[tuple[int, ...]]:
    """Yields the growing beginning of one source's best output that cannot change any more, like ``Streaming``. If the
    search cannot stream, yields the whole output once.
    """
    if isinstance(search, Streaming):
        yield from search.stream(model, source, prefix)
    else:
        yield search(model, source, prefix)[0][0].tokens


def resized(search: R, size: int | None, nbest: int | None) -> R:
    """Returns a copy of the search with another beam ``size`` or number ``nbest`` of hypotheses.

    If only ``size`` is given, a larger ``nbest`` falls to ``size``. If only ``nbest`` is given, a smaller ``size``
    rises to ``nbest``. Raises UserError if both are given and ``nbest`` exceeds ``size``.
    """
    if nbest is None:
        nbest = search.nbest if search.nbest is None or size is None else min(search.nbest, size)
    if size is None:
        size = max(search.size, nbest or 1)
    return replace(search, size=size, nbest=nbest)


def ends_freely(search: object) -> bool:
    """True if the search decides where an output ends, so that the output may be empty. The class attribute
    ``ends_freely`` says so; without it, the result is False, as for labels.
    """
    return bool(getattr(search, "ends_freely", False))


def with_unknown(search: R) -> R:
    """The search with ``unknown`` = True, also inside a search that runs another one (its field ``search``). Another
    search is returned unchanged.
    """
    names = [each.name for each in fields(search)] if is_dataclass(search) else []
    changes = {"unknown": True} if "unknown" in names else {}
    if "search" in names:
        changes["search"] = with_unknown(search.search)
    return replace(search, **changes) if changes else search


# ------------------------------------------------------- parts of searches that need a run


class Decoding(Protocol):
    """The part of a tokenizer that a search may need: the text of ids, and the item that each id stands for."""

    @property
    def entries(self) -> tuple[Hashable, ...]: ...

    def decode(self, ids: Sequence[int]) -> str: ...


@runtime_checkable
class OfVocabulary(Protocol):
    """A part of a search that must know the vocabularies of its model. ``with_vocabularies`` returns the part that the
    search can use.
    """

    def with_vocabularies(self, source: Decoding, target: Decoding) -> object: ...


EXCLUDED = -1e6
"""The log-probability of a token that a search's language model excludes. It is finite, so that sums and differences
are defined. So the search finds an output even if the language model excludes all outputs."""


def loaded_model(model: Path | Autoregressive[S]) -> Autoregressive[S]:
    """The language model of a search: ``model`` itself. Raises UserError for a path, which ``Transducer.with_search``
    replaces.
    """
    if isinstance(model, Path):
        raise UserError(
            f"language_model = {str(model)!r}: the run is loaded with the model that is searched, by transduce.load or "
            "Transducer.changed; give a model here, such as transduce.load(...).model"
        )
    return model


def with_run(part: R, load: Callable[[Path], Autoregressive[S]], source: Decoding, target: Decoding) -> R:
    """Connects a search, or a part of one, to a trained run. Returns a copy; ``part`` itself if nothing changes.

    The function replaces fields of ``part``, and of the dataclasses and tuples inside it. A field ``language_model``
    that is a path becomes the model that ``load`` returns for it. An ``OfVocabulary`` becomes the result of its
    ``with_vocabularies`` for the tokenizers ``source`` and ``target`` of the searched model.
    """
    if isinstance(part, OfVocabulary):
        return cast("R", part.with_vocabularies(source, target))
    if not is_dataclass(part):
        return part
    changes = dict[str, object]()
    for each in fields(part):
        value = getattr(part, each.name)
        found: object = value
        if each.name == "language_model" and isinstance(value, Path):
            found = load(value)
        elif isinstance(value, tuple):
            found = tuple(with_run(item, load, source, target) for item in value)
        elif is_dataclass(value):
            found = with_run(value, load, source, target)
        if found is not value and found != value:
            changes[each.name] = found
    return replace(cast("Any", part), **changes) if changes else part

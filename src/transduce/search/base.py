"""The contracts of this package: what searches call at each step, and what callers may ask of a search.

B sources, K hypotheses of each, N = B * K rows, T tokens, V vocabulary, C candidate continuations of a source.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar, runtime_checkable

from torch import Tensor

from transduce.protocols import Search
from transduce.types import EOS, Padded

S = TypeVar("S")
R = TypeVar("R", bound=Any)  # a search: a dataclass with the fields size and nbest


class Follower(Protocol[S]):
    """Follows a search: it keeps a state for each hypothesis and reads each token that is written.

    ``start`` returns the state of a batch, one row per source. ``extend`` reads the next tokens of each row: a whole
    prefix [N, T], or one step with T = 1. It never reads BOS. The state is a tree (tree.py), which the search selects,
    repeats and reorders together with the model's state.
    """

    def start(self, source: Any) -> S: ...

    def extend(self, tokens_NT: Tensor, state: S) -> S: ...


class Stateless:
    """A follower without a state."""

    def start(self, source: Any) -> None:
        return None

    def extend(self, tokens_NT: Tensor, state: None) -> None:
        return None


class Filter(Follower[S], Protocol[S]):
    """Lowers the scores [N, V] of next tokens: minus infinity forbids a token. It may write into ``scores_NV``.

    Scores are log-probabilities, minus what earlier filters subtracted. A filter must not raise a score: a beam stops
    when no active hypothesis can still win. The result for one row must not depend on other rows. If the filters of a
    row forbid every token, the row ends and ranks behind rows with an allowed token. Filters do not change a forced
    prefix, but they read its tokens.
    """

    def __call__(self, scores_NV: Tensor, state: S) -> Tensor: ...


@dataclass(frozen=True)
class Continuations:
    """The candidate continuations of each source, and which of them finish or stay active.

    ``total`` [B, C] is the score of the whole hypothesis, minus infinity if there is none. ``origin`` [B, C] is the
    hypothesis that the candidate continues, ``token`` [B, C] its last token. ``ended`` [B, C] marks finished ones.
    ``live_BK`` are the candidates of the next beam. A candidate that neither ends nor is in the next beam is pruned. A
    place in the beam that is given to an end stays empty.
    """

    total_BC: Tensor
    origin_BC: Tensor
    token_BC: Tensor
    ended_BC: Tensor
    live_BK: Tensor

    @property
    def live_total_BK(self) -> Tensor:
        """Scores of the next beam, minus infinity at empty places."""
        return self.total_BC.masked_fill(self.token_BC == EOS, float("-inf")).gather(1, self.live_BK)


class Allocation(Follower[S], Protocol[S]):
    """Chooses which continuations get the K places of a beam.

    The total of a continuation, in float64, is ``total_BK[b, k] + scores_BKV[b, k, v]``. An allocation must not write
    into these tensors. ``first`` returns the places, of ``size``, that start active: all hypotheses start equal, so two
    active ones would find everything twice. ``check`` raises UserError if a beam of ``size`` cannot be allocated.
    """

    def check(self, size: int) -> None: ...

    def first(self, size: int) -> list[int]: ...

    def __call__(self, scores_BKV: Tensor, total_BK: Tensor, state: S) -> Continuations: ...


class Ranking(Protocol):
    """The score of a finished hypothesis, from its log-probability, its length and the source's length in tokens.

    Both lengths count EOS; the source's length is 0 if it is not a sequence. The score must rise with the
    log-probability. As a function of the length it must rise everywhere or fall everywhere: a beam stops when neither
    the shortest nor the longest continuation could win.
    """

    def __call__(self, log_prob: float, length: int, source_length: int) -> float: ...


class Truncation(Protocol):
    """Returns the smallest probability [N, 1] that sampling keeps, given the probabilities [N, V] of all tokens.

    Tokens with an equal or higher probability are kept. The most probable token is always kept.
    """

    def __call__(self, p_NV: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Expansion:
    """One step of a beam: its candidates, the log-probability [B, C] of each candidate's token, and the source of each
    of the B rows. Finished sources are left out.

    ``candidates.origin_BC`` counts the hypotheses of the previous step's ``candidates.live_BK``, in that order.
    ``length`` is the length of the outputs after the step, in tokens. ``begun_BT`` is given in the first step: the part
    of the prefix with which all outputs start.
    """

    length: int
    source_B: list[int]
    candidates: Continuations
    log_prob_BC: Tensor
    begun_BT: Tensor | None = None


class Observer(Protocol):
    """Receives each step of a beam. It must read the tensors before it returns: the search uses them again."""

    def __call__(self, expansion: Expansion) -> None: ...


@runtime_checkable
class Streaming(Protocol):
    """A search that knows the first tokens of an output before the rest.

    ``stream`` takes one source. It yields the tokens of the best output that no later step can change. Each time it
    yields at least as many as before, and in the end all of them.
    """

    def stream(self, model: Any, source: Any, prefix: Padded | None = None) -> Iterator[tuple[int, ...]]: ...


def stream(search: Search[Any], model: Any, source: Any, prefix: Padded | None = None) -> Iterator[tuple[int, ...]]:
    """Yields the decided tokens of one source's best output. A search that cannot stream yields all of them at once."""
    if isinstance(search, Streaming):
        yield from search.stream(model, source, prefix)
    else:
        yield search(model, source, prefix)[0][0].tokens


def resized(search: R, size: int | None, nbest: int | None) -> R:
    """The search with another beam ``size`` or ``nbest``. An argument that is None keeps its value as far as the other
    one allows."""
    if nbest is None:
        nbest = search.nbest if search.nbest is None or size is None else min(search.nbest, size)
    if size is None:
        size = max(search.size, nbest or 1)
    resized: R = replace(search, size=size, nbest=nbest)
    return resized

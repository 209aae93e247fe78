"""The protocol of models that can be told some words of their output."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from transduce.core.protocols import InstantDecoder, Parallel, S


class Refining(Parallel[S], Protocol[S]):
    """A parallel model that also gives p(y_t | the observed words, t, n, x).

    ``observe`` returns the state with the words [N, T] that the next ``emit`` may read; BOS stands for a word that is
    not observed. A state that has just started observes no words.
    """

    def observe(self, state: S, tokens_NT: Tensor) -> S: ...


class ObservingDecoder(InstantDecoder[S], Protocol[S]):
    """A decoder with the same method for its own state."""

    def observe(self, state: S, tokens_NT: Tensor) -> S: ...

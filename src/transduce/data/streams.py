"""A text as one long document, read in chunks: for language models that know the text before a line.

B rows of a batch, T tokens of a chunk, C tokens before it, M tokens of the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from transduce.core.types import BOS, EOS, Batch, Chunk, Padded
from transduce.data.batching import Place
from transduce.data.corpora import DataError
from transduce.data.pairs import Ragged


@dataclass(frozen=True)
class Streams:
    """Reads the lines of a text as one long document, instead of each line alone.

    The text is cut into ``rows`` streams of equal length. Each batch has the next ``length`` tokens of every stream,
    and one epoch reads each stream once. If ``carry`` is True, the model's state after a chunk is the state before the
    next one. Gradients go back to the beginning of the chunk, and no further (truncated backpropagation through time:
    Zaremba et al. 2014, section 4.1). If ``carry`` is False, the model starts each chunk anew. It then first reads the
    last ``context`` tokens before the chunk, which it does not predict again. Raises DataError if ``rows`` or
    ``length`` is below 1, ``context`` is below 0, or both ``carry`` and ``context`` are set.
    """

    rows: int = 20
    length: int = 35
    carry: bool = True
    context: int = 0

    def __post_init__(self) -> None:
        for name, least in (("rows", 1), ("length", 1), ("context", 0)):
            if getattr(self, name) < least:
                raise DataError(f"streams.{name} = {getattr(self, name)}: at least {least} was expected")
        if self.carry and self.context:
            raise DataError(
                f"streams.context = {self.context}: a model that carries its state does not read tokens again; set "
                "streams.carry = false, or leave context out"
            )


class StreamBatches:
    """The batches of a text [M], in order: batch n has chunk n of each stream. Every epoch has the same batches.

    ``text`` has the lines, each with its EOS. A stream has M // ``rows`` tokens, so up to rows - 1 tokens at the end of
    the text are left out. The last chunk of an epoch may be shorter. Raises DataError if the text has fewer tokens than
    rows, or if it is numbers.
    """

    def __init__(self, text: Ragged, streams: Streams) -> None:
        self.ids = text.ids
        self.streams = streams
        if self.ids.dtype.kind == "f":
            raise DataError("training.streams reads tokens, and the target is numbers: leave streams out")
        self.stream_length = len(self.ids) // streams.rows
        if not self.stream_length:
            raise DataError(
                f"training.streams.rows = {streams.rows}: the text has only {len(self.ids)} tokens; set fewer rows, or "
                "give more text"
            )

    @property
    def per_epoch(self) -> int:
        """The number of batches in an epoch."""
        return -(-self.stream_length // self.streams.length)

    def iterate(self, place: Place) -> Iterator[tuple[Batch, Place]]:
        """Yields the batches from ``place`` on, without end, each with the place after it: the place from which to
        continue.

        Raises DataError if the epoch has fewer batches than ``place`` says were taken.
        """
        if place.batch > self.per_epoch:
            raise DataError(f"batch {place.batch} of an epoch of {self.per_epoch}: data or streams have changed")
        while True:
            for number in range(place.batch, self.per_epoch):
                yield self.batch(number), Place(place.epoch, number + 1)
            place = Place(place.epoch + 1)

    def batch(self, number: int) -> Batch:
        """Batch ``number`` of an epoch, from 0. Its source is a row of one EOS for each stream."""
        rows, length, carry = self.streams.rows, self.streams.length, self.streams.carry
        first = number * length
        before = 1 if carry else 1 + min(self.streams.context, first)
        starts_B1 = np.arange(rows)[:, None] * self.stream_length
        places_T = np.arange(first, min(first + length, self.stream_length))
        target_BT = self.ids[starts_B1 + places_T].astype(np.int64)
        history_BC = self._history(starts_B1 + np.arange(first - before, first))
        one_B = torch.ones(rows, dtype=torch.long)
        return Batch(
            Padded(torch.full((rows, 1), EOS), one_B),
            Padded(torch.from_numpy(target_BT), one_B * target_BT.shape[1]),
            torch.arange(rows),
            Chunk(torch.from_numpy(history_BC), carried=carry, continues=carry and number > 0),
        )

    def _history(self, places_BC: NDArray[np.int64]) -> NDArray[np.int64]:
        """The tokens at these places; BOS before the beginning of the text."""
        tokens_BC = self.ids[np.maximum(places_BC, 0)].astype(np.int64)
        return np.where(places_BC < 0, BOS, tokens_BC)

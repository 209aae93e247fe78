"""Divides batches that do not fit into memory. Their gradients are summed."""

from __future__ import annotations

from collections.abc import Iterator

from transduce.core.errors import StoppedError
from transduce.core.types import Batch
from transduce.data.batch_shares import rows_of


def padded_tokens(batch: Batch) -> int:
    """The number of positions of a batch with padding: its rows times its longest source or target."""
    return len(batch.ids) * max(batch.source.values.shape[1], batch.target.values.shape[1])


class Splitting:
    """Divides batches into parts that fit into memory. It begins without a limit: each batch is one part.

    The gradients of the parts are summed and divided once by the number of target tokens, so that the update is the
    same as for the whole batch.
    """

    def __init__(self) -> None:
        self.limit: int | None = None  # the smallest number of padded tokens that was too large

    def parts(self, batch: Batch) -> Iterator[Batch]:
        """Yields the batch itself, or parts of its rows in order, each below the limit if rows can be divided."""
        rows = len(batch.ids)
        if self.limit is None or padded_tokens(batch) < self.limit or rows < 2:
            yield batch
            return
        for half in (slice(0, rows // 2), slice(rows // 2, rows)):
            yield from self.parts(rows_of(batch, half))

    def too_large(self, part: Batch, error: BaseException) -> None:
        """Lowers the limit, because this part did not fit. Raises StoppedError if the part cannot be divided, because
        it is a single pair or a chunk of a text.
        """
        tokens = padded_tokens(part)
        if len(part.ids) < 2 or part.chunk is not None:
            what = "a chunk of the text" if part.chunk is not None else "a single pair"
            fix = "training.streams.rows" if part.chunk is not None else "data.lines.max_source_length"
            raise StoppedError(
                f"{what} of {tokens:,} tokens does not fit into memory: lower {fix} or the size of the model"
            ) from error
        self.limit = tokens

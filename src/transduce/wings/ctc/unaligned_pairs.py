"""The pairs without an alignment, found before training: their outputs need more frames than their sources give.

N pairs, B rows of a batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from transduce.data.pairs import Pairs, Ragged

PROBES = 32  # lengths of sources whose frames are counted; the frames of other lengths are interpolated
AT_ONCE = 4  # sources in a batch of probes


def unaligned(model: Any, pairs: Pairs) -> NDArray[np.int64]:
    """The indices of the pairs that have no alignment with the frames of a ``Framewise`` model.

    Counts the model's frames for at most ``PROBES`` lengths of sources, so it takes seconds for any number of pairs.
    If there are more lengths, the result may miss a pair, or have one too many, by one frame. The first pair that it
    returns never has an alignment.
    """
    lengths_N = pairs.source_lengths
    every, first = np.unique(lengths_N, return_index=True)
    chosen = np.unique(np.linspace(0, len(every) - 1, min(len(every), PROBES)).round().astype(int))
    frames_N = np.floor(np.interp(lengths_N, every[chosen], frame_counts(model, pairs, first[chosen])))
    suspects = np.flatnonzero(least_frames(pairs.target) > frames_N)
    if not len(suspects):
        return suspects
    # the frames of other lengths are estimates, and for some encoders, such as word encoders, the length says little
    some = suspects[:: -(-len(suspects) // PROBES)]
    real = some[least_frames(pairs.target.select(some)) > frame_counts(model, pairs, some)]
    if len(some) == len(suspects) or 2 * len(real) < len(some):
        return real
    return np.concatenate([real[:1], suspects[suspects != real[0]]])


def frame_counts(model: Any, pairs: Pairs, rows_B: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of frames [B] that the model gives for the sources of these pairs."""
    device = next(iter(model.parameters())).device
    training: bool = model.training
    model.eval()
    try:
        with torch.no_grad():
            parts: list[NDArray[np.int64]] = [
                model.frames(pairs.source.padded(rows_B[start : start + AT_ONCE]).to(device)).lengths.cpu().numpy()
                for start in range(0, len(rows_B), AT_ONCE)
            ]
    finally:
        model.train(training)
    return np.concatenate(parts)


def least_frames(target: Ragged) -> NDArray[np.int64]:
    """[N]: the smallest number of frames that each output needs (``ctc.paths.least_frames``). Rows end with EOS."""
    equal = np.append(target.ids[1:] == target.ids[:-1], False)
    equal[target.offsets[1:] - 1] = False  # the end of a row and the beginning of the next one
    repeats_N = np.add.reduceat(equal, target.offsets[:-1], dtype=np.int64)
    return target.lengths.astype(np.int64) - 1 + repeats_N

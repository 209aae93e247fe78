"""The distribution at each position of a given output: teacher forcing.

T target tokens, V target vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from typing import Any

import torch
from torch import Tensor

from transduce.answers.transducer import Transducer
from transduce.core import tree
from transduce.core.protocols import Autoregressive, can
from transduce.search.forcing import shifted


@torch.inference_mode()
def forced_log_probs(transducer: Transducer, source_ids: Sized, target_ids: Sequence[int]) -> tuple[object, Tensor]:
    """The features of the output's positions, and the log-probabilities [T, V] there, each given the target tokens
    before it. For an autoregressive model, or one that writes all tokens at once, which has no position for EOS.
    """
    model: Any = transducer.model
    target = transducer.padded([list(target_ids)], torch.long)
    with transducer.computing():
        state = model.start(transducer.padded([source_ids]))
        if can(type(model), Autoregressive):
            features, _ = model.extend(shifted(target), state)
        else:
            features = model.emit(state, target.lengths - 1).output
        output = tree.map(lambda leaf: leaf[0], features)
        return output, model.readout(output).float().log_softmax(-1)

"""Deterministic attention: which word each step reads, and what the data tell about it."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from families import FACTS, FAMILIES, build
from transduce.core import config
from transduce.core.errors import UserError
from transduce.core.protocols import Model
from transduce.core.types import BOS, EOS, Facts, Padded

SOURCE = Padded(torch.tensor([[4, 7, 6, EOS], [8, EOS, 5, 5]]), torch.tensor([4, 2]))  # padded with other ids


def test_each_step_reads_the_word_that_is_written_next() -> None:
    """5 and 8 stand for words. The second source has one word, and then its end."""
    model = build(FAMILIES["synchronous"])
    assert FACTS.placeholders == (5, 8)
    tokens = torch.tensor([[BOS, 5, 9, 8, 5, 5], [BOS, 9, 8, 5, 9, 4]])
    places = torch.tensor([[0, 1, 1, 2, 3, 3], [0, 0, 1, 1, 1, 1]])
    decoder, memory = model.decoder, model.encoder(SOURCE)
    read_NTD = torch.stack([states[place] for states, place in zip(memory.states.values, places, strict=True)])
    inputs_NTI = torch.cat([decoder.embedding(tokens), read_NTD], -1)
    s_NTW, _ = decoder.stack.unroll(inputs_NTI, decoder.start(memory).cells)
    expected_NTV = decoder.projection(torch.tanh(decoder.mix(torch.cat([s_NTW, read_NTD], -1))))
    assert_close(model.readout(model.extend(tokens, model.start(SOURCE))[0]), expected_NTV)


def test_a_target_without_placeholders_is_refused() -> None:
    with pytest.raises(UserError, match=r'"synchronous".*data\.units\.target to "tree-brackets"'):
        config.build(FAMILIES["synchronous"], Model, Facts(source_vocabulary=9, target_vocabulary=11), "model")
    with pytest.raises(UserError, match="this target has none"):
        config.build({"type": "language-model", "decoder": FAMILIES["synchronous"]["decoder"]}, Model, FACTS, "model")

"""Edits in float64: the sum over all edit sequences, against a walk through each of them, and copying."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from families import FACTS, FAMILIES, build, pyramidal
from transduce.core.errors import UserError
from transduce.core.types import BOS, EOS, PAD, Batch, Padded
from transduce.objectives.cross_entropy import CrossEntropy
from transduce.objectives.members import Members

SOURCE = Padded(torch.tensor([[4, 7, 6, EOS], [8, EOS, 5, 5]]), torch.tensor([4, 2]))  # junk after the second
TARGET = torch.tensor([[5, 3, EOS], [10, 10, EOS]])


def way_sum(decoder: Any, d_TW: Tensor, states_SD: Tensor, ids: list[int], written: list[int]) -> Tensor:
    """The probability of ``written``: the sum over every sequence of edits, by recursion."""
    V, copies = FACTS.target_vocabulary, FACTS.copies if len(decoder.copies) else (PAD,) * 9

    def actions(s: int, t: int) -> Tensor:
        h_H = torch.tanh(decoder.read(states_SD[s]) + decoder.remember(d_TW[t]))
        energy_A = torch.cat([decoder.projection(h_H), decoder.moves(h_H)])  # insert V tokens, delete, copy
        last = s == len(ids) - 1
        excluded = [V + 1] * (copies[ids[s]] == PAD) + ([V] if last else [EOS])
        energy_A[excluded] = float("-inf")
        return energy_A.softmax(-1)

    def walk(s: int, t: int) -> Tensor:
        p_A = actions(s, t)
        token = written[t]
        found = p_A[token] * (walk(s, t + 1) if t + 1 < len(written) else 1)
        if copies[ids[s]] == token:
            found = found + p_A[V + 1] * walk(s + 1, t + 1)
        return found + (p_A[V] * walk(s + 1, t) if s + 1 < len(ids) else 0)

    return walk(0, 0)


@pytest.mark.parametrize("family", ["edits", "edits, two layers, no copies"])
def test_a_target_has_the_probability_of_all_its_ways(family: str) -> None:
    model = build(FAMILIES[family])
    read = torch.tensor([[BOS, *row[:-1]] for row in TARGET.tolist()])
    log_p_BTV = model.readout(model.extend(read, model.start(SOURCE))[0])
    got_B = log_p_BTV.gather(2, TARGET[..., None])[..., 0].sum(1)
    memory, decoder = model.encoder(SOURCE), model.decoder
    cells = decoder.start(memory).cells
    d_BTW, _ = decoder.stack.unroll(decoder.embedding(read), cells)
    for row, length in enumerate(SOURCE.lengths.tolist()):
        ids = SOURCE.values[row, :length].tolist()
        expected = way_sum(decoder, d_BTW[row], memory.states.values[row], ids, TARGET[row].tolist())
        assert_close(got_B[row], expected.log())


def test_it_is_a_distribution_with_gradients() -> None:
    model = build(FAMILIES["edits"])
    log_p_BTV = model.readout(model.extend(TARGET, model.start(SOURCE))[0])
    assert_close(log_p_BTV.logsumexp(-1), torch.zeros(2, 3, dtype=torch.float64))
    log_p_BTV.gather(2, TARGET[..., None]).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_to_copy_there_is_a_state_for_each_token() -> None:
    with pytest.raises(UserError, match=r"one state for each token.*decoder.copy=false"):
        build({**FAMILIES["edits"], "encoder": pyramidal()}).start(SOURCE)


def test_members_learn_alone_and_are_measured_together() -> None:
    model = build(FAMILIES["seeds of edits"])
    target = Padded(TARGET, torch.tensor([3, 3]))
    batch = Batch(SOURCE, target, torch.arange(2))
    apart = [CrossEntropy()(one, batch)[0] for one in model.models]
    assert apart[0].total != apart[1].total  # the members have different initial weights
    model.train()
    for module in model.modules():
        if hasattr(module, "p"):
            module.p = 0.0
    loss, _ = Members()(model, batch)
    assert_close(loss.total, (apart[0].total + apart[1].total) / 2)
    assert_close(loss.parts["nll"], (apart[0].parts["nll"] + apart[1].parts["nll"]) / 2)
    whole, _ = Members()(model.eval(), batch)
    assert_close(whole.total, CrossEntropy()(model, batch)[0].total)
    assert whole.total < loss.total  # Jensen's inequality, for the mean of probabilities

"""A trained model and a count-based model in one run: their mixture, their training, and saving them."""

from __future__ import annotations

from pathlib import Path

import torch
from torch.testing import assert_close

from families import FAMILIES, build, sources, targets
from transduce import api
from transduce.core.types import BOS, EOS, Batch, Padded
from transduce.models.mixtures import Fusion
from transduce.objectives.cross_entropy import CrossEntropy
from transduce.objectives.members import Members
from transduce.runs.loading import load
from transduce.training.callbacks import Callback, Started
from transduce.training.request import TrainingRequest

FAMILY = "edits with counts"
TINY = {
    "training.steps": 4,
    "training.average": 2,
    "training.validation.times": 2,
    "model.model.members": 2,
    "data.units.target": "characters",
}
PAIRS = [(word, word.upper()) for word in ("ab", "ba", "abb", "bab", "aa")] * 5


class Report(Callback):
    """Collects the lines that a training reports at its start."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines

    def on_start(self, started: Started) -> None:
        self.lines.extend(started.report)


def batch() -> Batch:
    return Batch(sources([4, 3]), Padded(targets(2, 4), torch.tensor([4, 4])), torch.arange(2))


def test_it_is_the_fusion_of_both() -> None:
    model = build(FAMILIES[FAMILY])
    once = Fusion(list(model.models), [0.7, 0.3])
    states, tokens = [each.start(sources([4, 3])) for each in (model, once)], targets(2, 4)
    read = [each.readout(each.extend(tokens, state)[0]) for each, state in zip((model, once), states, strict=True)]
    assert_close(read[0], read[1])


def test_members_learn_without_the_counts() -> None:
    model = build(FAMILIES[FAMILY])
    expected, _ = CrossEntropy()(model.models[0], batch())
    measured, _ = Members()(model, batch())
    assert_close(measured.total, CrossEntropy()(model, batch())[0].total)
    model.training = True  # its parts are not: no dropout
    loss, _ = Members()(model, batch())
    assert_close(loss.total, expected.total)


def test_without_counts_it_is_the_trained_model_alone(tmp_path: Path) -> None:
    run, lines = tmp_path / "run", list[str]()
    pairs = [(source, target * 5) for source, target in PAIRS]
    api.train_run(TrainingRequest("g2p-small", run, TINY, pairs), progress=False, callbacks=[Report(lines)])
    assert "joint-ngram is left out: 24 of 24 pairs cannot be cut" in " ".join(lines)
    model = load(run).model
    source, tokens = Padded(torch.tensor([[4, 5, EOS]]), torch.tensor([3])), torch.tensor([[BOS, 4]])
    states = model.start(source), model.models[0].start(source)
    both = zip((model, model.models[0]), states, strict=True)
    read = [each.readout(each.extend(tokens, own)[0]) for each, own in both]
    assert torch.equal(*read)


def test_counts_of_the_same_pairs_are_taken_and_others_are_counted(tmp_path: Path) -> None:
    words, counted, lines = tmp_path / "words.tsv", tmp_path / "counted", list[str]()
    text = "".join(f"{source}\t{target}\n" for source, target in PAIRS)
    words.write_text(text, encoding="utf-8")
    own = {"data.train.path": str(words), "data.valid.path": str(words), "data.units.target": "characters"}
    api.train("g2p-joint", counted, own, progress=False)

    def train(name: str, settings: dict[str, object]) -> str:
        lines.clear()
        request = TrainingRequest("g2p-small", tmp_path / name, TINY | own | settings, init=counted)
        api.train_run(request, progress=False, callbacks=[Report(lines)])
        return " ".join(lines)

    taken = "joint-ngram has the counts of init.run, which counted the same pairs"
    assert taken in train("same", {})
    old, new = (dict(load(run).model.named_parameters()) for run in (counted, tmp_path / "same"))
    assert old
    assert all(torch.equal(table, new[f"models.1.{name}"]) for name, table in old.items())
    for name, settings in (("order", {"model.counted.order": 3}), ("gain", {"training.gain": 0.5})):
        assert "joint-ngram is counted" in train(name, settings)
    words.write_text(text + "abba\tABBA\n", encoding="utf-8")
    assert "joint-ngram is counted" in train("more", {})

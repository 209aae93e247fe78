"""Masked language models: gaps in texts, masking in training, filling gaps, and pseudo-likelihood by hand."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import transduce
from transduce import api
from transduce.core.errors import UserError
from transduce.core.types import BOS, EOS, Batch, Emission, Padded
from transduce.data.corpora import DataError
from transduce.data.tokenizers.text import Characters, Words
from transduce.wings.language.gap_search import FillGaps
from transduce.wings.language.gap_tokenizer import GAP, Gaps
from transduce.wings.language.masking import MaskedCrossEntropy

TEXTS = ["the dog barks", "the cat sleeps", "a dog sleeps", "a cat barks at the dog"]
VOCABULARY = 9


class Neighbours(nn.Module):
    """A model whose logits at each position depend only on its token and both neighbours. Keeps its last source."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.tables = nn.Parameter(torch.randn(3, VOCABULARY, VOCABULARY), requires_grad=False)
        self.read: Padded | None = None

    def start(self, source: Padded) -> Padded:
        self.read = source
        return source

    def emit(self, state: Padded, lengths: Any = None) -> Emission:
        ids_BS = state.values
        before_BS, after_BS = ids_BS.roll(1, 1), ids_BS.roll(-1, 1)
        logits = self.tables[0, before_BS] + self.tables[1, ids_BS] + self.tables[2, after_BS]
        return Emission(logits[:, : int(state.lengths.max()) - 1], state.lengths - 1)

    def readout(self, output: torch.Tensor, candidates: Any = None) -> torch.Tensor:
        return output


def batch(*rows: list[int]) -> Batch:
    padded = Padded.of([[*row, EOS] for row in rows])
    return Batch(padded, padded, tuple(range(len(rows))))


# ------------------------------------------------------------------- texts


@pytest.mark.parametrize("unit", [Words(), Characters()], ids=["words", "characters"])
def test_a_gap_is_one_id_and_a_text_without_gaps_is_as_before(unit: Any) -> None:
    plain, gaps = unit.learn(TEXTS), Gaps(unit).learn(TEXTS)
    assert gaps.encode(TEXTS) == plain.encode(TEXTS)
    (first,), (last,) = plain.encode(["the dog"]), plain.encode(["barks"])
    for text in ("the dog ___ barks", "the dog   ___  barks"):
        (ids,) = gaps.encode([text])
        assert ids == [*first[:-1], GAP, *last]
        assert gaps.decode(ids) == gaps.normalize(text) == "the dog ___ barks"
        spans = gaps.spans(text)
        assert len(spans) == len(ids)
        assert text[slice(*spans[len(first) - 1])] == "___"
        assert "".join(text[slice(*span)] for span in spans[len(first) : -1]).strip() == "barks"
    assert gaps.encode(["___ ___"]) == [[GAP, GAP, EOS]]
    assert gaps.tokens([GAP, EOS])[0] == "___"
    (word,) = gaps.encode(["dog___"])
    assert GAP not in word
    again = type(gaps).from_json(gaps.as_json())
    assert again.fingerprint == gaps.fingerprint
    assert again.encode(["a ___"]) == gaps.encode(["a ___"])


def test_marks_that_are_no_words_are_refused() -> None:
    for mark in ("", "a b"):
        with pytest.raises(DataError, match="a word without white space was expected"):
            Gaps(Words(), mark).learn(TEXTS)


# --------------------------------------------------------------- objective


def test_only_hidden_tokens_are_predicted() -> None:
    model = Neighbours().eval()
    objective = MaskedCrossEntropy(share=0.4)
    given = batch([4, 5, 6, 7, 8, 4], [5, 5, 7])
    loss, _ = objective(model, given)
    assert model.read is not None
    hidden_BT = model.read.values != given.target.values
    assert hidden_BT.any()
    assert set(model.read.values[hidden_BT].tolist()) == {BOS}
    assert not hidden_BT[given.target.values == EOS].any()
    logits = model.emit(model.read).output
    wanted_N = given.target.values[hidden_BT]
    expected = nn.functional.cross_entropy(logits[hidden_BT[:, :-1]], wanted_N, reduction="sum")
    assert float(loss.total) == pytest.approx(float(expected), rel=1e-5)
    assert loss.count == int(hidden_BT.sum())


def test_validation_hides_the_same_tokens_in_any_batch() -> None:
    model, objective = Neighbours().eval(), MaskedCrossEntropy(share=0.3)
    rows = [[4, 5, 6, 7, 8, 4, 6], [5, 5, 7, 8, 4, 6, 7], [8, 7, 6]]
    together, _ = objective(model, batch(*rows))
    again, _ = objective(model, batch(*rows))
    assert float(together.total) == float(again.total)
    read = [objective._chosen(torch.tensor([row]), False)[0].tolist() for row in rows]
    assert objective._chosen(torch.tensor(rows[:2]), False).tolist() == read[:2]


def test_training_hides_the_shares_that_it_says() -> None:
    torch.manual_seed(3)
    rows = torch.randint(4, VOCABULARY, (400, 50)).tolist()
    given = batch(*rows)
    for span, share in ((1, 0.15), (3, 0.3)):
        model = Neighbours().train()
        objective = MaskedCrossEntropy(share=share, hidden=0.8, random=0.1, span=span)
        loss, _ = objective(model, given)
        assert model.read is not None
        changed = model.read.values != given.target.values
        gaps = model.read.values == BOS
        chosen = loss.count / 20_000
        assert chosen == pytest.approx(share, abs=0.02)
        assert int(gaps.sum()) / loss.count == pytest.approx(0.8, abs=0.02)
        # A random token equals the old one in one of five.
        assert int((changed & ~gaps).sum()) / loss.count == pytest.approx(0.1 * 4 / 5, abs=0.015)
        chosen_BT = objective._chosen(given.target.values, True)
        alone = chosen_BT[:, 1:-1] & ~chosen_BT[:, :-2] & ~chosen_BT[:, 2:]
        assert bool(alone.any()) == (span == 1)


def test_two_texts_are_no_text_with_gaps() -> None:
    with pytest.raises(UserError, match="are one text, and here they differ"):
        MaskedCrossEntropy()(Neighbours(), Batch(Padded.of([[4, 5, EOS]]), Padded.of([[4, 6, EOS]]), (0,)))
    for options in ({"share": 0.0}, {"hidden": 0.8, "random": 0.3}, {"span": 0}):
        with pytest.raises(UserError):
            MaskedCrossEntropy(**options)  # type: ignore[arg-type]


# ------------------------------------------------------------------ search


def test_gaps_are_filled_by_the_most_probable_tokens() -> None:
    model = Neighbours()
    source = Padded.of([[4, BOS, 5, BOS, EOS], [6, BOS, EOS]])
    found = FillGaps(nbest=4)(model, source)
    log_probs = model.emit(source).output.log_softmax(-1).detach()
    ways = sorted(
        (
            (float(log_probs[0, 1, a] + log_probs[0, 3, b]), (4, a, 5, b, EOS))
            for a, b in product(range(4, 9), repeat=2)
        ),
        reverse=True,
    )
    assert [each.tokens for each in found[0]] == [tokens for _, tokens in ways[:4]]
    assert [each.log_prob for each in found[0]] == pytest.approx([score for score, _ in ways[:4]], abs=1e-5)
    assert found[1][0].tokens[::2] == (6, EOS)
    assert len(found[1]) == 4
    assert FillGaps()(model, Padded.of([[4, 5, EOS]]))[0][0].tokens == (4, 5, EOS)  # no gap, no change


def test_pseudo_likelihood_hides_one_token_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Neighbours()
    row = [4, 6, 5, 7, EOS]
    expected = []
    for place in range(4):
        copy = [*row[:place], BOS, *row[place + 1 :]]
        logits = model.emit(Padded.of([copy])).output.detach()
        expected.append(float(logits[0, place].log_softmax(-1)[row[place]]))
    text = Padded.of([row, [8, 8, EOS]])
    for at_once in (4096, 5):
        monkeypatch.setattr("transduce.wings.language.gap_search.AT_ONCE", at_once)
        first, second = FillGaps().force(model, text, text)
        assert list(first.token_log_probs) == pytest.approx([*expected, 0.0], abs=1e-5)
        assert len(second.tokens) == 3
    # If a text has gaps, only the gaps are scored, and each is scored while all of them are open.
    (found,) = FillGaps().force(model, Padded.of([[4, BOS, BOS, 7, EOS]]), Padded.of([row]))
    logits = model.emit(Padded.of([[4, BOS, BOS, 7, EOS]])).output.log_softmax(-1).detach()
    assert found.log_prob == pytest.approx(float(logits[0, 1, 6] + logits[0, 2, 5]), abs=1e-5)
    with pytest.raises(UserError, match="different numbers of tokens"):
        FillGaps().force(model, text, Padded.of([[4, EOS], [4, EOS]]))


# ------------------------------------------------------------------- a run


@pytest.fixture(scope="module")
def run(tiny: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("masked")
    for split, texts in (("train", TEXTS * 5), ("valid", TEXTS)):
        (folder / f"{split}.tsv").write_text("".join(f"{text}\n" for text in texts))
    kept = {key: value for key, value in tiny.items() if key.startswith("training") and "search" not in key}
    changes = {
        "data.train.path": str(folder / "train.tsv"),
        "data.valid.path": str(folder / "valid.tsv"),
        "data.units": {"joint": {"type": "gaps", "text": "words"}},
        "data.cache": tiny["data.cache"],
        "model.encoder.width": 8,
        "model.encoder.embedding_width": 8,
    }
    api.train("masked", folder / "run", kept | changes, device="cpu", progress=False)
    return folder / "run"


def test_the_verbs_of_a_masked_language_model(run: Path, tmp_path: Path, call: Callable[..., Any]) -> None:
    status, out, _ = call("predict", run, "--device=cpu", "--nbest=2", stdin=b"the ___ barks\n")
    assert status == 0
    first, second = out.splitlines()
    assert first != second
    assert all(line.split()[0] == "the" and line.split()[2] == "barks" for line in (first, second))
    (scored,) = transduce.load(run, device="cpu").score([(TEXTS[0], TEXTS[0])])
    assert scored.log_prob is not None
    assert scored.log_prob < 0


def test_a_tagger_starts_from_its_encoder_and_words(run: Path, tiny: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "tags.tsv").write_text("the dog barks\tD N V\na cat sleeps\tD N V\n" * 4)
    settings = {
        "data.train.path": str(tmp_path / "tags.tsv"),
        "data.valid.path": str(tmp_path / "tags.tsv"),
        "data.cache": tiny["data.cache"],
        "data.units": {"source": "words", "target": "symbols"},
        "model.encoder": transduce.load(run).settings["model"]["encoder"],
        "training.steps": 2,
        "training.precision": "float32",
        "init.vocabulary": "source",
    }
    found = api.train("tagging-network", tmp_path / "run", settings, device="cpu", progress=False, init=run)
    assert found.tokenizers.source.fingerprint == transduce.load(run).tokenizers.source.fingerprint
    assert set(found.tokenizers.target.entries[4:]) == {"D", "N", "V"}
    report = (tmp_path / "run" / "init.json").read_text()
    assert "encoder.embedding.weight" in report
    assert found("the dog barks").count(" ") == 2

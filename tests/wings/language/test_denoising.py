"""The noise of denoising autoencoders, the spans of masked language models, and their shares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from test_masking import Neighbours, batch
from torch import Tensor

from families import transformer
from transduce import api
from transduce.core import config
from transduce.core.errors import UserError
from transduce.core.protocols import Model
from transduce.core.types import BOS, EOS, PAD, Facts, Padded
from transduce.objectives.cross_entropy import CrossEntropy
from transduce.wings.language import spans
from transduce.wings.language.denoising import Denoising
from transduce.wings.language.masking import MaskedCrossEntropy

ROW = [*range(4, 14), EOS]


def rows_of(padded: Padded) -> list[list[int]]:
    return [row[:length].tolist() for row, length in zip(padded.values, padded.lengths.tolist(), strict=True)]


def fixed(monkeypatch: pytest.MonkeyPatch, **draws: list[float]) -> None:
    """Replaces random numbers by ``begins``, ``lengths`` and ``order``, which are the same for every row."""
    salts = {0: "begins", 1: "begins", 2: "lengths", 3: "order"}

    def uniform(ids_BT: Tensor, training: bool, salt: int = 0) -> Tensor:
        row_T = torch.ones(ids_BT.shape[1]) * 0.999
        given = draws.get(salts[salt], [])[: ids_BT.shape[1]]
        row_T[: len(given)] = torch.tensor(given)
        return row_T.repeat(len(ids_BT), 1)

    for module in ("denoising", "masking"):
        monkeypatch.setattr(f"transduce.wings.language.{module}.uniform", uniform)


def test_each_noise_is_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    short = [20, 21, EOS]
    text = Padded.of([ROW, short])
    fixed(monkeypatch, begins=[0.9, 0.0, 0.9, 0.9, 0.0, 0.9, 0.9, 0.9, 0.0, 0.9, 0.0], lengths=[0.9, 0.4] + [0.1] * 9)
    masked = rows_of(Denoising("masking").noisy(text, True))
    assert masked == [[4, BOS, 6, 7, BOS, 9, 10, 11, BOS, 13, EOS], [20, BOS, EOS]], "EOS is no part of the text"
    deleted = rows_of(Denoising("deletion").noisy(text, True))
    assert deleted == [[4, 6, 7, 9, 10, 11, 13, EOS], [20, EOS]]
    # Poisson with mean 3: 0.4 is a span of 2, and 0.1 one of 1; 0.04 would be empty
    filled = rows_of(Denoising("infilling").noisy(text, True))
    assert filled == [[4, BOS, 7, BOS, 9, 10, 11, BOS, 13, EOS], [20, BOS, EOS]]


def test_an_empty_span_inserts_a_gap_and_spans_that_touch_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    fixed(monkeypatch, begins=[0.0, 0.9, 0.0, 0.0, 0.9, 0.9, 0.0], lengths=[0.01, 0.9, 0.3, 0.3, 0.9, 0.9, 0.3])
    (found,) = rows_of(Denoising("infilling").noisy(Padded.of([ROW]), True))
    assert found == [BOS, 4, 5, BOS, 9, BOS, 12, 13, EOS]


def test_sentences_change_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {4: "A", 5: "dog", 6: ".", 7: "Why", 8: "?", 9: "end", EOS: ""}
    objective = Denoising("deletion", permute=True).reading(lambda ids: " ".join(texts.get(i, "") for i in ids))
    text = Padded.of([[4, 5, 6, 7, 8, 9, EOS], [4, 6, EOS]])
    fixed(monkeypatch, order=[0.5, 0.1, 0.3])
    assert rows_of(objective.noisy(text, True)) == [[7, 8, 9, 4, 5, 6, EOS], [4, 6, EOS]]
    with pytest.raises(UserError, match="give it the decoder"):
        Denoising(permute=True).noisy(text, True)


@pytest.mark.parametrize("training", [True, False])
def test_the_share_is_the_share(training: bool) -> None:
    torch.manual_seed(1)
    text = Padded.of([[*torch.randint(4, 900, (200,)).tolist(), EOS] for _ in range(200)])
    for noise in ("infilling", "masking", "deletion"):
        objective = Denoising(noise, share=0.3)  # type: ignore[arg-type]
        gone, gap = objective._chosen(text.values, training)
        assert float(gone.float().mean()) == pytest.approx(0.3, abs=0.02), noise
        if noise == "infilling":
            runs = (gone[:, 1:] & ~gone[:, :-1]).sum() + gone[:, 0].sum()
            assert float(gone.sum() / runs) == pytest.approx(3.6, abs=0.4), "spans that touch are one"
            assert int(gap.sum()) > int(runs), "some gaps are empty spans"


def test_validation_has_the_same_noise_in_any_batch() -> None:
    objective, texts = Denoising(), [ROW, [5, 9, 4, 30, EOS], [*ROW[:-1], *ROW]]
    together = rows_of(objective.noisy(Padded.of(texts), False))
    assert together == [rows_of(objective.noisy(Padded.of([text]), False))[0] for text in texts]
    assert together != texts


def test_the_loss_is_cross_entropy_given_the_noisy_text() -> None:
    model: Any = config.build(transformer(), Model, Facts(20, 20), "model").eval()
    given, objective = batch(ROW[:-1], [5, 6]), Denoising(smoothing=0.1)
    loss, _ = objective(model, given)
    noisy = type(given)(objective.noisy(given.target, False), given.target, given.ids)
    expected, _ = CrossEntropy(0.1)(model, noisy)
    assert loss.total.item() == pytest.approx(expected.total.item(), rel=1e-6)
    assert int((noisy.source.values == PAD).sum()) > 0
    with pytest.raises(UserError, match="are one text, and here they differ"):
        objective(model, type(given)(given.target, Padded.of([[4, 4, EOS]]), given.ids))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Denoising(share=1.0), "share = 1.0"),
        (lambda: Denoising(span=0.5), "span = 0.5"),
        (lambda: Denoising(share=0.9, span=1.0), "cover at most 0.76; set a longer span"),
    ],
)
def test_impossible_noise_is_refused(make: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()


# ------------------------------------------------------- whole words and spans

PIECES = {4: "▁the", 5: "▁dog", 6: "gy", 7: "▁", 8: "x", EOS: ""}


def decode(ids: Any) -> str:
    return "".join(PIECES.get(token, "") for token in ids).replace("▁", " ").lstrip(" ")


def test_a_word_is_hidden_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    ids_BT = torch.tensor([[4, 5, 6, 6, 4, 7, 8, EOS]])
    assert spans.word_indices(ids_BT, decode).tolist() == [[0, 1, 1, 1, 2, 3, 3, 4]]
    fixed(monkeypatch, begins=[0.9, 0.0, 0.9, 0.0])
    model = Neighbours().train()
    objective = MaskedCrossEntropy(hidden=1.0, random=0.0, words=True).reading(decode)
    objective(model, batch([4, 5, 6, 6, 4, 7, 8]))
    assert model.read is not None
    assert model.read.values.tolist() == [[4, BOS, BOS, BOS, 4, BOS, BOS, EOS]]


def test_drawn_runs_have_a_geometric_distribution() -> None:
    torch.manual_seed(1)
    ids_BT = torch.zeros(300, 400, dtype=torch.long)
    objective = MaskedCrossEntropy(share=0.02, span=5, drawn=True)  # so rare that two runs hardly ever touch
    chosen = objective._chosen(ids_BT, True)
    assert float(chosen.float().mean()) == pytest.approx(0.02, abs=0.003)
    begins = chosen[:, 1:-11] & ~chosen[:, :-12]
    lengths = torch.stack([chosen[:, 1 + n : n - 11 or None] for n in range(12)]).cumprod(0).sum(0)[begins]
    share = torch.bincount(lengths, minlength=12)[1:11] / len(lengths)
    expected = torch.tensor([0.2 * 0.8**k for k in range(9)] + [0.8**9])
    assert float((share - expected).abs().max()) < 0.04


def test_a_run_has_the_objective_of_its_settings(tiny: dict[str, Any], tmp_path: Path) -> None:
    """The settings build the objective, which gets the decoder. Training and validation run with it to the end."""
    (tmp_path / "a.tsv").write_text("the dog barks. a cat sleeps.\n" * 8)
    kept = {key: value for key, value in tiny.items() if key.startswith("training") and "search" not in key}
    changes = {
        "data.train.path": str(tmp_path / "a.tsv"),
        "data.valid.path": str(tmp_path / "a.tsv"),
        "data.cache": tiny["data.cache"],
        "data.units": {"joint": "words"},
        "objective.permute": True,
        "model": transformer(),
    }
    run = api.train("denoising", tmp_path / "run", kept | changes, device="cpu", progress=False)
    assert run.settings["objective"]["type"] == "denoising"
    assert run.settings["objective"]["permute"] is True

"""Language models that the settings of a search name: loaded, checked, and used as those given from Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import transduce
from transduce.core.types import Padded
from transduce.search.beam import Beam
from transduce.search.filters.language import LanguageModelFilter
from transduce.search.filters.lengths import LengthLimit
from transduce.search.ranking import LogProbability

SOURCES = ["abc", "hello", "zz", "a"]


@pytest.fixture(scope="module")
def letters(tiny: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """n-grams of the targets of ``trained``."""
    return counted(tiny, tmp_path_factory.mktemp("letters") / "letters", "reverse")


def counted(tiny: dict[str, Any], run: Path, recipe: str, **more: Any) -> Path:
    own = {key: tiny[key] for key in ("data.origin", "data.cache")}
    settings = {"model": {"type": "ngram", "order": 2}, "objective": "cross-entropy", "search": tiny["search"]}
    transduce.train(
        recipe,
        run,
        own | settings | {"training": {"epochs": 1}, "metrics": ["perplexity"]} | more,
        device="cpu",
        progress=False,
    )
    return run


@pytest.fixture(scope="module")
def frames(tiny: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of frames on the same data."""
    run = tmp_path_factory.mktemp("frames") / "ctc"
    model = {"type": "ctc", "stretch": 2, "encoder": {"type": "recurrent", "cell": "gru", "width": 6}}
    model["encoder"] |= {"embedding_width": 8}
    changed = {"model": model, "objective": "ctc", "search": {"type": "prefix-beam", "size": 3}}
    own = {key: tiny[key] for key in ("data.origin", "data.cache")}
    transduce.train("reverse", run, own | changed | {"training": {"steps": 3}}, device="cpu", progress=False)
    return run


# ------------------------------------------------------------------- fusion


def test_a_neural_language_model_follows_a_beam(trained: Path, tiny: dict[str, Any], tmp_path: Path) -> None:
    """Its state grows with the prefixes and moves with them."""
    stack = {"type": "transformer", "width": 8, "layers": 1, "heads": 2, "feedforward": 8}
    stack |= {"positions": "sinusoidal", "norm": "pre"}
    neural = counted(
        tiny, tmp_path / "neural", "reverse", model={"type": "language-model", "decoder": stack}, training={"steps": 2}
    )
    model, language = transduce.load(trained), transduce.load(neural)
    prefix = Padded.of([[5], [4, 6]])
    source = model.padded([model.read_one("abc"), model.read_one("hello")])
    search = Beam(3, 3, 10, LogProbability(), (LanguageModelFilter(language.model, 0.7), LengthLimit(minimum=3)))
    for row in search(model.model, source, prefix):
        assert len(row) == 3
        for hypothesis in row:
            own = language.search.force(language.model, source, Padded.of([hypothesis.tokens] * 2))[0]
            start = 1 if hypothesis.tokens[0] == 5 else 2  # the prefix is forced, and so is an end at the limit
            outside = sum(own.token_log_probs[start : len(hypothesis.tokens) - (len(hypothesis.tokens) == 10)])
            assert hypothesis.score == pytest.approx(hypothesis.log_prob + 0.7 * outside, abs=1e-4)


def test_no_weight_leaves_it_out() -> None:
    scores = torch.zeros(2, 5)
    alone = LanguageModelFilter(Path("nowhere"), 0.0)
    state = alone.extend(torch.tensor([[4], [4]]), alone.start(Padded.of([[4], [4]])))
    assert alone(scores, state) is scores
    with pytest.raises(ValueError, match=r"weight = -1: 0, which leaves the language model out"):
        LanguageModelFilter(Path("nowhere"), -1)
    with pytest.raises(ValueError, match="language_model = 'nowhere': the run is loaded with the model"):
        LanguageModelFilter(Path("nowhere")).start(Padded.of([[4]]))


# ------------------------------------------------------------------- frames


# ----------------------------------------------------------------- where it is

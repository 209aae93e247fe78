"""Language models in the engine's file: they score texts and go on with them as PyTorch does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from test_engine_file import content, needs_engine, tokenizer

import transduce_engine
from families import FACTS, FAMILIES, sources
from transduce.core.types import EOS, Padded
from transduce.search.forcing import force
from transduce.wings.engines.engine_files import open_file
from transduce.wings.engines.export.engine import NO_SOURCE
from transduce.wings.language.generation_search import Generation

pytestmark = needs_engine

NAMES = [f"language model, {of}, no attention" for of in ("gru", "transformer", "convs2s")]
TARGETS = [[5, 6, EOS], [EOS], [7, 8, 9, 4, 3, EOS]]


def language_model(name: str, precision: str = "float32") -> tuple[Any, bytes]:
    return content(FAMILIES[name], {"type": "greedy", "max_length": 9}, precision, source=json.dumps(NO_SOURCE))


@pytest.mark.parametrize("name", NAMES)
def test_texts_have_the_log_probabilities_of_pytorch(name: str) -> None:
    model, file = language_model(name)
    engine = transduce_engine.load(file)
    for one, two in zip(
        force(model, sources([1, 1, 1]), Padded.of(TARGETS)), engine.score_ids([[EOS]] * 3, TARGETS), strict=True
    ):
        assert two.best.token_log_probs == pytest.approx(one.token_log_probs, abs=2e-5)
    texts = [tokenizer(FACTS.target_vocabulary).decode(target) for target in TARGETS[:2]]
    assert engine.score(["aZ"])[0].warnings(3) == ["input 3: 1 of 2 tokens are unknown to the model"]
    assert [answer.best for answer in engine.score(texts)] == [
        each.best for each in engine.score_ids([[EOS]] * 2, TARGETS[:2])
    ]


@pytest.mark.parametrize("how", [{}, {"temperature": 0.5, "seed": 99}, {"top_k": 3, "top_p": 0.8}])
@pytest.mark.parametrize("name", NAMES)
def test_a_seed_gives_the_samples_of_pytorch(name: str, how: dict[str, Any]) -> None:
    model, file = language_model(name)
    prompt = [5, 7]
    steps = list(Generation(8, 4, **how)(model, sources([1]), torch.tensor(prompt)))
    token_KT, log_prob_KT, active_KT = (torch.stack(column, 1) for column in zip(*steps, strict=True))
    text = tokenizer(FACTS.target_vocabulary).decode(prompt)
    found = transduce_engine.load(file).generate(text, 4, 8, **how)
    for token_T, log_prob_T, active_T, output in zip(token_KT, log_prob_KT, active_KT, found, strict=True):
        assert output.ids == tuple(token_T[active_T].tolist())
        assert output.token_log_probs == pytest.approx(log_prob_T[active_T].tolist(), abs=2e-5)
        assert output.text == tokenizer(FACTS.target_vocabulary).decode([*prompt, *output.ids])


def test_what_a_language_model_has_not_is_told() -> None:
    _, file = language_model(NAMES[0])
    engine = transduce_engine.load(file)
    with pytest.raises(transduce_engine.EngineError, match=r"^input 1: this is a language model, which has no sources"):
        engine.answer(["ab"])
    for how, message in (
        ({"samples": 0}, r"^samples = 0: 1 to 1000 was expected"),
        ({"length": 0}, "^length = 0: 1 to"),
        ({"temperature": float("nan")}, "^temperature = nan: a number above 0"),
        ({"top_k": -1}, "^top_k = -1"),
        ({"top_p": 1.5}, r"^top_p = 1\.5"),
        ({"seed": 2**64 + 1}, r"^seed = 18446744073709551617: a number of at most 64 bits"),
    ):
        with pytest.raises(transduce_engine.EngineError, match=message):
            engine.generate("ab", **how)  # type: ignore[arg-type]
    with pytest.raises(transduce_engine.EngineError, match=r"^prompt = 'a.nb': one line was expected"):
        engine.generate("a\nb")
    _, other = content(FAMILIES["luong, dot"], {"type": "greedy", "max_length": 9})
    with pytest.raises(transduce_engine.EngineError, match="this model has sources"):
        transduce_engine.load(other).generate("ab")
    with pytest.raises(transduce_engine.EngineError, match="this model has sources"):
        transduce_engine.load(other).score(["ab"])


def test_the_command_scores_lines_and_goes_on_with_them(tmp_path: Path) -> None:
    _, file = language_model(NAMES[0])
    (tmp_path / "some.engine").write_bytes(file)
    engine = open_file(file).engine

    def printed(*options: str) -> list[str]:
        command = [sys.executable, "-m", "transduce_engine", tmp_path / "some.engine", *options]
        return subprocess.run(command, input=b"ab\n", capture_output=True, check=True).stdout.decode().splitlines()

    assert printed("--format", "tsv") == [f"ab\t{engine.score(['ab'])[0].best.score:.4f}\tab"]
    expected = [each.text for each in engine.generate("ab", 2, 5, seed=4)]
    assert printed("--generate", "--samples", "2", "--length", "5", "--seed", "4") == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--seed", "3"], "--seed is an option of --generate, which was not given"),
        (["--beam", "3"], "--beam and --nbest are for models with sources, and this is a language model"),
        (["--generate", "--top-p", "7"], "top_p = 7.000000: a probability was expected, or 0 for all tokens"),
    ],
)
def test_options_of_another_model_end_in_a_line(options: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "some.engine").write_bytes(language_model(NAMES[0])[1])
    command = [sys.executable, "-m", "transduce_engine", tmp_path / "some.engine", *options]
    done = subprocess.run(command, input=b"ab\n", capture_output=True, text=False)
    assert (done.returncode, done.stderr.decode()) == (2, f"transduce-engine: {message}\n")

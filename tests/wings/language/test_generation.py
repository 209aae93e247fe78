"""Generation from a prompt: the tokens against a loop over whole passes, and the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from test_cli import Call, told
from test_contexts import one_pass
from test_streams import PAIRS, SETTINGS
from torch import Tensor
from torch.testing import assert_close

import transduce
from families import build, language, recurrent, stacked, transformer
from transduce import api
from transduce.core import config
from transduce.core.types import BOS, EOS, PAD, UNK, Padded
from transduce.search import random_numbers
from transduce.search.sampling import Sampling, drawn
from transduce.search.truncation import Nucleus, TopK
from transduce.wings.language.contexts import Carried, Window
from transduce.wings.language.generation import Writer
from transduce.wings.language.generation_search import Drawn, Generation

MODELS = {
    "lstm": language(recurrent("plain", bridge="zero")["decoder"]),
    "transformer": language(transformer()["decoder"]),
    "lightweight": language(stacked({}, {"mixer": {"type": "lightweight", "kernel": 3}})["decoder"]),
}
SOURCE = Padded.of([[EOS]])
PROMPT = torch.tensor([5, EOS, 7, 4])


def columns(steps: list[Drawn]) -> tuple[Tensor, Tensor, Tensor]:
    """The tokens [K, T], their log-probabilities, and which of them are parts of a sample."""
    token_KT, log_prob_KT, active_KT = (torch.stack(column, 1) for column in zip(*steps, strict=True))
    return token_KT, log_prob_KT, active_KT


@torch.no_grad()
def by_hand(model: Any, how: Generation, sampling: Sampling, sample: int, window: Window | None = None) -> list[int]:
    """The tokens of one sample. Each token reads everything before it again."""
    read = [BOS, *PROMPT.tolist()]
    keys = random_numbers.keys((SOURCE, torch.tensor([read])), how.seed, how.samples)[sample : sample + 1]
    written: list[int] = []
    for place in range(how.length):
        if window is not None and len(read) > window.size:
            read = read[-max(1, window.size - window.stride) :]
        tokens = torch.tensor([[BOS if token == EOS else token for token in read]])
        output, _ = model.extend(tokens, model.start(SOURCE))
        scores = model.readout(output)[:, -1].log_softmax(-1)
        scores[:, [PAD, BOS, UNK]] = float("-inf")
        token = int(drawn(sampling.distribution(scores), random_numbers.uniform(keys, place)))
        written.append(token)
        read.append(token)
        if token == EOS and not how.lines:
            break
    return written


CUT = Sampling(temperature=0.8, truncations=(TopK(7), Nucleus(0.9)))


@pytest.mark.parametrize("lines", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_samples_are_drawn_token_by_token(name: str, lines: bool) -> None:
    model = build(MODELS[name])
    how = Generation(14, 3, temperature=0.8, top_k=7, top_p=0.9, seed=4, lines=lines)
    context = None if name == "transformer" else Carried()
    token_KT, log_prob_KT, active_KT = columns(list(how(model, SOURCE, PROMPT, context)))
    samples = [token_T[active_T].tolist() for token_T, active_T in zip(token_KT, active_KT, strict=True)]
    assert samples == [by_hand(model, how, CUT, sample) for sample in range(3)]
    assert len({tuple(sample) for sample in samples}) > 1
    after = one_pass(model, torch.cat([PROMPT, torch.tensor(samples[0])]))[len(PROMPT) :]
    assert_close(log_prob_KT[0][active_KT[0]], after)


@pytest.mark.parametrize("window", [Window(6, 2), Window(5, 5)], ids=repr)
def test_a_window_reads_the_last_tokens_again(window: Window) -> None:
    model = build(MODELS["transformer"])
    how = Generation(14, 2, lines=True)
    token_KT, _, _ = columns(list(how(model, SOURCE, PROMPT, window)))
    assert token_KT.tolist() == [by_hand(model, how, Sampling(), sample, window) for sample in range(2)]


def test_more_samples_and_a_longer_text_begin_alike() -> None:
    model = build(MODELS["lstm"])
    short, _, _ = columns(list(Generation(5, 2, lines=True)(model, SOURCE, PROMPT)))
    long, _, _ = columns(list(Generation(9, 4, lines=True)(model, SOURCE, PROMPT)))
    assert long[:2, :5].tolist() == short.tolist()
    other, _, _ = columns(list(Generation(9, 4, seed=2, lines=True)(model, SOURCE, PROMPT)))
    assert other.tolist() != long.tolist()


# ------------------------------------------------------------------------ use


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model of characters, which is trained on one document."""
    folder = tmp_path_factory.mktemp("generation")
    training = {**SETTINGS["training"], "steps": 100, "validation": {"every": 100}}
    (folder / "text.toml").write_text(config.write(SETTINGS | {"context": "carried", "training": training}))
    api.train(folder / "text.toml", folder / "run", pairs=PAIRS, device="cpu", progress=False)
    return folder / "run"


def test_texts_from_the_command_line_and_from_python(run: Path, call: Call) -> None:
    model = transduce.load(run, device="cpu")
    texts = model.generate("abab\nba", 30, 2, temperature=0.7, top_k=4, seed=3)
    assert all(text.startswith("abab\nba") and text.count("\n") > 2 for text in texts)
    options = ("--length=30", "--temperature=0.7", "--top-k=4", "--seed=3", "--device=cpu")
    status, out, _ = call("generate", run, "--prompt", "abab\nba", "--samples=2", *options)
    assert (status, out) == (0, f"{texts[0]}\n\n{texts[1]}\n")
    assert call("generate", run, "--prompt", "abab\nba", "--stream", *options)[1] == f"{texts[0]}\n"
    (row,) = call("generate", run, "--prompt", "ba", "--format=jsonl", "--one-line", "--device=cpu")[1].splitlines()
    written = json.loads(row)
    line = written["text"]
    assert (written["prompt"], line[:2], "\n" in line) == ("ba", "ba", False)
    (scored,) = model.score([("", line)])
    (begun,) = model.score([("", "ba")])
    assert written["log_prob"] == pytest.approx(sum(scored.token_log_probs[2:]), rel=1e-4)
    assert scored.token_log_probs[:2] == pytest.approx(begun.token_log_probs[:2], rel=1e-4)


@pytest.mark.parametrize("lines", [True, False])
@pytest.mark.parametrize("prompt", ["", "ab", "ab\n", "a\n\nb"])
def test_the_pieces_are_the_text(prompt: str, lines: bool, run: Path) -> None:
    model = transduce.load(run, device="cpu")
    if "\n" in prompt and not lines:
        with pytest.raises(ValueError, match=r"the prompt has \d lines, and the text ends with its line"):
            model.generate(prompt, lines=lines)
        return
    for seed in range(3):
        writer = Writer(model, Generation(25, seed=seed, lines=lines))
        pieces = list(writer.stream(prompt))
        (whole,) = writer(prompt)
        assert "".join(pieces) == whole.text
        assert max(map(len, pieces[1:])) <= len("<unk>")


def test_what_cannot_write_on_says_so(run: Path, trained: Path, call: Call, tmp_path: Path) -> None:
    assert "the model has sources" in told(call("generate", trained, "--prompt=a"))
    for option, message in (
        ("--temperature=0", "temperature = 0.0: a number above 0"),
        ("--top-k=0", "k = 0: at least one token must stay"),
        ("--top-p=2", "p = 2.0: a probability was expected"),
        ("--format=x", "x"),
    ):
        assert message in told(call("generate", run, option))
    assert "--stream writes one text as it comes" in told(call("generate", run, "--stream", "--samples=2"))
    with pytest.raises(ValueError, match="length = 0: at least 1"):
        transduce.load(run).generate(length=0)
    decoder = transformer()["decoder"] | {"positions": {"type": "learned", "length": 8}}
    training = {"steps": 1, "validation": {"every": 100}}
    (tmp_path / "text.toml").write_text(config.write(SETTINGS | {"model": language(decoder), "training": training}))
    api.train(tmp_path / "text.toml", tmp_path / "run", pairs=PAIRS, device="cpu", progress=False)
    assert "position 9: the model has learned positions 0 to 7 only" in told(
        call("generate", tmp_path / "run", "--prompt=ababababa", "--device=cpu")
    )

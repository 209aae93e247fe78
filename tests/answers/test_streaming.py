"""Streamed outputs: each output extends the one before, tokens come early, and the last output is complete."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from test_cli import told
from test_prefix import prefixes
from test_search import Lookup, all_of

import transduce
from families import FAMILIES, build, sources
from transduce.answers.transducer import Transducer
from transduce.core.types import EOS, Hypothesis
from transduce.data.preparation import Tokenizers
from transduce.data.tokenizers.text import Bpe, Bytes, Characters, Unigram, Words
from transduce.search.allocation.groups import Groups
from transduce.search.base import stream
from transduce.search.beam import Beam
from transduce.search.exact import Exact
from transduce.search.greedy import Greedy
from transduce.search.ranking import LogProbability
from transduce.search.sampling import Sampling

Call = Callable[..., tuple[int, str, str]]
SEARCHES: dict[str, Any] = {
    "greedy": Greedy(8),
    "one sample": Sampling(max_length=8),
    "samples": Sampling(4, max_length=8),
    "beam 1": Beam(1, max_length=8),
    "beam 4": Beam(4, 2, max_length=8, ranking=LogProbability()),
    "groups": Beam(4, max_length=8, allocation=Groups(2)),
    "exact": Exact(max_length=6),
}


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_what_is_told_stays_and_is_all_in_the_end(search: Any) -> None:
    for seed in range(3):
        model = Lookup(seed)
        for source in range(4):
            for prefix in (None, prefixes([[5, 4, 4]])):
                alone = torch.tensor([source])
                found = list(stream(search, model, alone, prefix))
                assert found[-1] == search(model, alone, prefix)[0][0].tokens
                for before, after in pairwise(found):
                    assert after[: len(before)] == before


@pytest.mark.parametrize("name", ["greedy", "one sample", "beam 1"])
def test_a_search_of_one_tells_each_token_at_once(name: str) -> None:
    model = Lookup(ends=(-200.0,))
    following, told_after = stream(SEARCHES[name], model, all_of(model)), []
    for tokens in following:
        told_after.append((len(model.rows), len(tokens)))
    assert told_after[:7] == [(step, step) for step in range(1, 8)]


def test_a_beam_tells_what_all_agree_on_before_it_ends() -> None:
    """Two ways on after a sure beginning: the beginning is told when both live, the rest when one has won."""
    model = Lookup(ends=(0.0,))
    model.logits[:, :, :] = torch.tensor([-50.0, -50, -50, 9, 0, -50, -50])  # 3, seldom 4
    model.logits[:, :, EOS] = -9.0
    told_at = [len(tokens) for tokens in stream(Beam(2, max_length=12), model, all_of(model))]
    assert told_at[-1] == 12
    assert len(told_at) > 3
    early = [length for length in told_at[:-1] if 0 < length < 12]
    assert early == sorted(early)
    assert early


def test_of_a_trained_family() -> None:
    model, source = build(FAMILIES["transformer, rotary, gated, rms"]), sources([5])
    for search in SEARCHES.values():
        assert list(stream(search, model, source))[-1] == search(model, source)[0][0].tokens


# --------------------------------------------------------------------------- text


class Spelled:
    """A search that decides the tokens of a text one after the other."""

    def __init__(self, tokens: list[int]) -> None:
        self.tokens = tuple(tokens)

    def __call__(self, model: Any, source: Any, prefix: Any = None) -> list[list[Hypothesis]]:
        return [[Hypothesis(self.tokens, 0.0, 0.0)]]

    def stream(self, model: Any, source: Any, prefix: Any = None) -> Any:
        yield from (self.tokens[:length] for length in range(len(self.tokens) + 1))


@pytest.mark.parametrize(
    "unit", [Characters(), Words(), Bytes(), Bpe(60), Unigram(60)], ids=lambda unit: type(unit).__name__
)
@pytest.mark.parametrize("text", ["a small ☃ in the snow", "", "the snow , the end .", "é☃☃", "a \ufffd b"])
def test_pieces_of_text_are_the_text(unit: Any, text: str, trained: Path) -> None:
    """Half a character is held back, in bytes; spaces come with what follows them."""
    model = transduce.load(trained, device="cpu")
    tokenizer = unit.learn(["a small ☃ in the snow", "the snow , the end .", "é☃☃ snow end small", "a \ufffd b"] * 5)
    spelled: Any = Spelled(tokenizer.encode([text])[0])
    writer = Transducer(model.model, spelled, Tokenizers(model.source_tokenizer, tokenizer))
    pieces = list(writer.stream("abc"))
    assert "".join(pieces) == tokenizer.decode(spelled.tokens)
    assert all("\ufffd" not in piece for piece in pieces) or "\ufffd" in text
    assert len([piece for piece in pieces if piece]) >= len(text.split())


@pytest.mark.parametrize("search", [None, Greedy(6), Sampling(max_length=6), Exact(max_length=6)], ids=repr)
def test_a_transducer_streams_what_it_answers(search: Any, trained: Path) -> None:
    model = transduce.load(trained, device="cpu")
    for line in ("abc", "", "zyxwé"):
        assert "".join(model.stream(line, search)) == next(model.predict([line], search))[0].text
        begun = next(model.predict([line], search, prefix="cb"))[0].text
        assert begun.startswith("cb")
        assert "".join(model.stream(line, search, prefix="cb")) == begun


def test_predict_streams(trained: Path, call: Call) -> None:
    stdin = "abc\n\nzé\n".encode()
    status, out, _ = call("predict", trained, "--stream", "--device=cpu", stdin=stdin)
    assert (status, out) == (0, call("predict", trained, "--device=cpu", stdin=stdin)[1])
    greedy = call("predict", trained, "--beam=1", "--device=cpu", stdin=stdin)[1]
    assert call("predict", trained, "--stream", "--beam=1", "--device=cpu", stdin=stdin)[1] == greedy
    begun = call("predict", trained, "--prefix=cb", "--device=cpu", stdin=stdin)[1]
    assert call("predict", trained, "--stream", "--prefix=cb", "--device=cpu", stdin=stdin)[1] == begun
    for option in ("--nbest=2", "--format=tsv", "--alignments"):
        assert "--stream writes one output's text as it comes" in told(call("predict", trained, "--stream", option))

"""The next words of a prefix: against an enumeration of all token sequences, and from the command line."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from test_cli import Call, told

import transduce
from families import build, language, recurrent, transformer
from transduce.answers.transducer import Transducer
from transduce.core.types import BOS, EOS, UNK, Padded
from transduce.data.preparation import NOTHING, Tokenizers
from transduce.data.tokenizers.text import Bytes
from transduce.search.greedy import Greedy
from transduce.wings.language.completion_search import NextWords, WordTokens, byte_pieces

PIECES = ("", "", "", "<unk>", " ", "a", "b", " a", "ab", " b", "ba")
WORDS = ("", "", "", " <unk>", *(f" {letter}" for letter in "tuvwxyz"))
MODELS = {
    "recurrent": language(recurrent("plain", cell="lstm", bridge="zero")["decoder"]),
    "transformer": language(transformer()["decoder"]),
}
SOURCE = Padded.of([[EOS], [EOS]])


def enumerated(model: Any, prefix: list[int], length: int) -> dict[str, float]:
    """The probability of each word of at most ``length`` tokens after a prefix, by enumeration."""
    ends = [EOS, *(token for token, piece in enumerate(PIECES) if piece[:1] == " ")]

    def following(tokens: tuple[int, ...]) -> torch.Tensor:
        rows = torch.tensor([[BOS, *prefix, *tokens]])
        output, _ = model.extend(rows, model.start(Padded.of([[EOS]])))
        row: torch.Tensor = model.readout(output)[0, -1].softmax(-1)
        return row

    found: dict[str, float] = {}
    ended = float(following(())[ends].sum()) if prefix else 1.0
    for size in range(1, length + 1):
        for tokens in itertools.product(range(UNK + 1, len(PIECES)), repeat=size):
            text = "".join(PIECES[token] for token in tokens)
            if (prefix and text[0] != " ") or not text.strip() or " " in text.lstrip():
                continue
            p = float(following(tokens)[ends].sum()) / ended
            for place, token in enumerate(tokens):
                p *= float(following(tokens[:place])[token])
            found[text.strip()] = found.get(text.strip(), 0.0) + p
    return found


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("prefix", [[], [7, 6]])
@torch.no_grad()
def test_words_of_pieces_have_the_probabilities_of_an_enumeration(name: str, prefix: list[int]) -> None:
    model = build(MODELS[name])
    expected = enumerated(model, prefix, 3)
    given = Padded.of([prefix, prefix]) if prefix else None
    search, tokens = NextWords(k=1000, size=400, max_length=3), WordTokens(PIECES)
    every, begun = search(model, SOURCE, tokens, given, ["", "ba"])
    assert dict(every) == pytest.approx(expected, rel=1e-5)
    assert every == sorted(every, key=lambda word: -word.probability)
    assert dict(begun) == pytest.approx({w: p for w, p in expected.items() if w.startswith("ba")}, rel=1e-5)
    few = NextWords(k=2, size=2)(model, SOURCE, tokens, given)[0]
    whole = dict(NextWords(k=1000, size=400, max_length=5)(model, SOURCE, tokens, given)[0])
    assert len(few) == 2
    assert all(word.probability <= whole[word.text] * (1 + 1e-5) for word in few)


@torch.no_grad()
def test_a_model_of_words_takes_one_step() -> None:
    model = build(MODELS["recurrent"])
    output, _ = model.extend(torch.tensor([[BOS, 5]]), model.start(Padded.of([[EOS]])))
    p_V = model.readout(output)[0, -1].log_softmax(-1)[EOS:].exp()
    p_V = p_V / p_V.sum()
    found = NextWords(k=20, size=1)(model, SOURCE, WordTokens(WORDS), Padded.of([[5], [5]]))[0]
    assert dict(found) == pytest.approx(dict(zip("tuvwxyz", p_V[2:].tolist(), strict=True)), rel=1e-5)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An n-gram model of characters."""
    folder = tmp_path_factory.mktemp("completion")
    pairs = [("", line) for line in ["the dog barks", "the cat sleeps", "a dog sleeps", "the dog sleeps"]]
    settings = {"data.units.target": "characters", "model.order": 6}
    transduce.train("ptb-ngram", folder / "run", settings, pairs=pairs, device="cpu", progress=False)
    return folder / "run"


def test_from_the_command_line_and_from_python(run: Path, call: Call) -> None:
    status, out, _ = call("complete", run, "the", "--k", 2)
    words = [line.split("\t")[0] for line in out.splitlines()]
    assert (status, words) == (0, ["dog", "cat"])
    status, out, _ = call("complete", run, "--format", "jsonl", "--k", 1, stdin="a\nthe dög \n\n".encode())
    rows = [json.loads(line) for line in out.splitlines()]
    model = transduce.load(run)
    python = model.complete(["a", "the dög", ""], k=1)
    assert [row["words"][0]["text"] for row in rows] == [words[0].text for words in python]
    assert [row["words"][0]["probability"] for row in rows] == pytest.approx([w[0].probability for w in python])
    assert [word.text for word in model.complete(["the"], 1, "c")[0]] == ["cat"]


def test_what_cannot_be_completed_says_so(run: Path, call: Call, tmp_path: Path) -> None:
    model = transduce.load(run)
    with pytest.raises(ValueError, match="k = 0: at least 1"):
        model.complete(["the"], 0)
    with pytest.raises(ValueError, match="write \\['the'\\]"):
        model.complete("the")
    with pytest.raises(ValueError, match="begun has 1 texts for 2 prefixes"):
        model.complete(["the", "a"], begun=["d"])
    assert "begun = 'd o': the first letters of one word" in told(call("complete", run, "the", "--begun", "d o"))
    transduce.train("g2p-joint", tmp_path / "run", {}, pairs=[("ab", "a b")] * 20, device="cpu", progress=False)
    assert "the model has sources" in told(call("complete", tmp_path / "run", "a"))


# ------------------------------------------------------------------------ bytes


class Spelling(torch.nn.Module):
    """A language model of bytes that writes one of these texts, with these probabilities. The probability of a next
    byte is the share of the texts that continue with it.
    """

    def __init__(self, texts: dict[str, float]) -> None:
        super().__init__()
        self.texts = {(*(4 + byte for byte in text.encode()), EOS): p for text, p in texts.items()}

    def start(self, source: Padded) -> torch.Tensor:
        return torch.zeros(len(source.lengths), 0, dtype=torch.long)

    def extend(self, tokens_BT: torch.Tensor, state: torch.Tensor) -> Any:
        whole = torch.cat([state, tokens_BT], 1)
        rows = [[self._next(row[1 : n + 1]) for n in range(state.shape[1], whole.shape[1])] for row in whole.tolist()]
        return torch.tensor(rows), whole

    def _next(self, read: list[int]) -> list[float]:
        shares = [1e-9] * 260
        for text, p in self.texts.items():
            if list(text[: len(read)]) == read and len(text) > len(read):
                shares[text[len(read)]] += p
        return shares

    def readout(self, output: torch.Tensor, candidates: Any = None) -> torch.Tensor:
        return output.log()


def test_words_of_bytes_are_whole_letters() -> None:
    model = Spelling({"à la": 0.3, "été": 0.4, "éclair": 0.1, "\u00a0x": 0.15, "a": 0.05})
    tokens = WordTokens([*PIECES[:4], *byte_pieces()], in_bytes=True)
    (every,) = NextWords(k=3, size=20, max_length=12)(model, Padded.of([[EOS]]), tokens)
    assert [(word.text, round(word.probability, 3)) for word in every] == [("été", 0.4), ("à", 0.3), ("éclair", 0.1)]
    (begun,) = NextWords(k=1, size=20, max_length=12)(model, Padded.of([[EOS]]), tokens, None, ["éc"])
    assert begun[0].text == "éclair"


def test_a_completer_knows_the_bytes_of_its_tokenizer() -> None:
    tokenizers = Tokenizers(NOTHING.learn(()), Bytes().learn([]))
    transducer = Transducer(Spelling({"das Rößl süß": 0.9, "das Roß": 0.1}), Greedy(), tokenizers, {})
    assert [word.text for word in transducer.complete(["das"], k=2)[0]] == ["Rößl", "Roß"]
    assert transducer.complete(["das Rößl"], begun="sü", k=1)[0][0].text == "süß"

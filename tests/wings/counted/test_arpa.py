"""ARPA files. A file that is read gives the probabilities in its text, and a file that is written can be read again."""

from __future__ import annotations

import gzip
import itertools
import json
import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from test_kneser_ney import LARGE
from test_pruning import model_of

import transduce
from transduce.wings.counted import arpa
from transduce.wings.counted.ngram_lookup import NgramLookup
from transduce.wings.counted.ngram_run import NgramModel
from transduce.wings.counted.ngrams import NGrams

Call = Callable[..., tuple[int, str, str]]

TEXT = """a comment before the data

\\data\\
ngram 1=6
ngram  2 = 5
ngram 3=4

\\1-grams:
-0.9\t<UNK>
0\t<s>\t-0.25
-0.7 </s>
-0.6\tthe\t-0.5
-6e-1\tdog\t-0.125
-1.25  caf\u00e9 0.2

\\2-grams:
-0.3\t<s> the\t-0.4
-0.4\tthe dog\t-0.1
-0.6\tdog </s>
-0.5\tthe <UNK>\t-0.7
-0.2 caf\u00e9 dog

\\3-grams:
-0.1\t<s> the dog
-0.2\tthe dog </s>
-0.35\tdog caf\u00e9 the
-0.15\tthe <UNK> dog

\\end\\
"""
"""Missing back-offs, a 3-gram without its parent "dog café", and a 3-gram without its suffix "café the"."""
WORDS = ["<unk>", "the", "dog", "caf\u00e9"]


def asked(text: str, words: tuple[str, ...]) -> float:
    """log10 p(last word | other words), computed from the lines of an ARPA file."""
    found = {}
    for line in text.replace("<UNK>", "<unk>").splitlines():
        fields = line.split()
        try:
            number = float(fields[0])
            last = float(fields[-1])
        except (IndexError, ValueError):
            last = None
        if len(fields) > 1 and re.match(r"-?\d", fields[0]):
            found[tuple(fields[1:] if last is None else fields[1:-1])] = (number, last or 0.0)
    if words in found:
        return found[words][0]
    return found.get(words[:-1], (0.0, 0.0))[1] + asked(text, words[1:])


def read(path: Path, text: str | bytes = TEXT) -> arpa.Arpa:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return arpa.read(path)


def every_answer(model: NgramLookup, names: list[str], longest: int) -> dict[tuple[str, ...], float]:
    """log10 p of the last word for all beginnings of sentences of up to ``longest`` words."""
    answers = {}
    for n in range(longest):
        for history in itertools.product(range(len(names)), repeat=n):
            state = torch.tensor([model.begun])
            for word in history:
                _, state = model(state, torch.tensor([word]))
            found, _ = model(state.expand(len(names) + 1), torch.arange(len(names) + 1))
            before = ("<s>", *(names[word] for word in history))
            for word, log_prob in zip([*names, "</s>"], found.tolist(), strict=True):
                answers[(*before, word)] = log_prob / math.log(10)
            every = model.every(state)[0, : len(names) + 1]
            assert every.tolist() == pytest.approx(found.tolist(), abs=1e-12)
    return answers


@pytest.mark.parametrize("form", ["plain", "gzip", "windows"])
def test_a_file_answers_as_its_text(form: str, tmp_path: Path) -> None:
    text = TEXT.replace("\n", "\r\n").encode() if form == "windows" else TEXT.encode()
    found = read(tmp_path / "model.arpa", gzip.compress(text) if form == "gzip" else text)
    assert found.vocabulary == ("the", "dog", "caf\u00e9")
    ngrams, unknown = found.ngrams(WORDS)
    assert unknown == (0, 0)
    assert ngrams.counts == [6, 6, 4]  # the parent "dog café" is added
    answers = every_answer(model_of(ngrams), WORDS, 4)
    assert len(answers) == 5 * (1 + 4 + 16 + 64)
    for words, log_prob in answers.items():
        assert log_prob == pytest.approx(asked(TEXT, words[-3:]), abs=1e-9), words


def test_another_vocabulary(tmp_path: Path) -> None:
    """N-grams with words outside the vocabulary are left out. Words that the file lacks are as probable as <unk>."""
    names = ["<unk>", "dog", "cat", "the"]
    ngrams, (foreign, lacking) = read(tmp_path / "model.arpa").ngrams(names)
    assert (foreign, lacking) == (1, 1)
    text = TEXT.replace("0\t<s>\t-0.25", "0\t<s>\t-0.25\n-0.9\tcat")
    for words, log_prob in every_answer(model_of(ngrams), names, 3).items():
        assert log_prob == pytest.approx(asked(text, words[-3:]), abs=1e-9), words


def test_a_file_without_an_unknown_word(tmp_path: Path) -> None:
    known = "\n".join(line for line in TEXT.splitlines() if "<UNK>" not in line) + "\n"
    known = known.replace("1=6", "1=5").replace("2 = 5", "2 = 4").replace("3=4", "3=3")
    ngrams, unknown = read(tmp_path / "model.arpa", known).ngrams(WORDS)
    assert unknown == (0, 0)
    log_prob, _ = model_of(ngrams)(torch.tensor([0]), torch.tensor([0]))
    assert float(log_prob) == pytest.approx(-100 * math.log(10))


def same(one: NGrams, other: NGrams) -> None:
    for name in ("keys", "suffix", "after"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    assert np.allclose(one.probability[1:], other.probability[1:], rtol=1e-7)  # nobody looks up the empty n-gram
    assert np.allclose(one.back_off[1:], other.back_off[1:], rtol=1e-7)


@pytest.mark.parametrize("name", ["a.arpa", "a.arpa.gz"])
@pytest.mark.parametrize("order", [1, 2, 4])
def test_what_is_written_is_read_again(order: int, name: str, tmp_path: Path) -> None:
    ngrams = LARGE.ngrams(order)
    names = ["<unk>", "a b", "\t", "\u00a0", *(f"w{number}" for number in range(LARGE.words - 4))]
    arpa.write(ngrams, names, tmp_path / name)
    again, unknown = arpa.read(tmp_path / name).ngrams([arpa.written(word) for word in names])
    assert unknown == (0, 0)
    same(again, ngrams)
    first = (tmp_path / name).read_bytes()
    arpa.write(ngrams, names, tmp_path / name)
    assert (tmp_path / name).read_bytes() == first
    with pytest.raises(ValueError, match="two words of the vocabulary would both be 'a▁b'"):
        arpa.write(ngrams, [*names[:-1], "a\u2581b"], tmp_path / name)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\\data\\", "data", "no line \\data\\"),
        ("-0.2 caf\u00e9 dog\n", "", "there are 4 2-grams, and \\data\\ declares 5; is it cut off?"),
        ("\\end\\\n", "", "is cut off after line 28"),
        (TEXT[TEXT.index("-0.2 caf") :], "", "is cut off after line 20, in the 2-grams"),
        (TEXT[TEXT.index("dog\n\n\\end") :], "", "a log-probability, 3 words and perhaps a back-off weight"),
        (
            "ngram 3=4",
            "ngram 3=999999999999999999",
            "there are 4 3-grams, and \\data\\ declares 999,999,999,999,999,999",
        ),
        ("ngram 3=4", "ngram 3=3", "there are more than the 3 3-grams"),
        ("ngram 3=4", "ngram 4=4", ":6: 'ngram 4=4': `ngram 3=COUNT` was expected"),
        ("ngram 3=4", "ngram 3=many", "`ngram 3=COUNT` was expected"),
        ("ngram 1=6\nngram  2 = 5\nngram 3=4\n", "", "there are no counts"),
        ("\\3-grams:", "\\4-grams:", "'\\\\4-grams:': the section \\3-grams: was expected"),
        ("\\end\\", "\\more\\", "\\end\\ was expected after the 3-grams"),
        ("-0.6\tthe\t-0.5", "0.6\tthe\t-0.5", ":12: log-probability 0.6: 0 or less was expected"),
        ("-0.6\tthe\t-0.5", "nan\tthe\t-0.5", ":12: log-probability nan"),
        ("-0.6\tthe\t-0.5", "-0.6\tthe\tinf", ":12: back-off weight inf"),
        ("-0.6\tthe\t-0.5", "x\tthe\t-0.5", ":12: 'x': a number was expected"),
        ("-0.6\tthe\t-0.5", "-0.6\tthe\tx", ":12: 'x': a number was expected"),
        ("-0.6\tthe\t-0.5", "-0.6", "a log-probability, 1 words"),
        ("-0.6\tthe\t-0.5", "-0.6\tdog\t-0.5", ":13: the word 'dog' occurs twice"),
        ("-0.6\tthe\t-0.5", "-0.6\t<unk>\t-0.5", ":12: the word '<unk>' occurs twice"),
        ("-0.6\tthe\t-0.5", "-0.6\t<pad>\t-0.5", "the name of a special token"),
        ("-0.4\tthe dog\t-0.1", "-0.4\t<s> the\t-0.1", ":18: the n-gram '<s> the' occurs twice"),
        ("-0.4\tthe dog\t-0.1", "-0.4\tthe cat\t-0.1", ":18: the word 'cat' is not among the 1-grams"),
        ("-0.1\t<s> the dog", "-0.1\t<s> the dog -1", "the back-off weight -1 of an n-gram of the highest order"),
        ("-0.7 </s>", "-0.7 end", "the word '</s>' is not among"),
        ("-0.7 </s>\n", "-0.7 x\n", "the word '</s>' is not among"),
        ("a comment", "x" * 200_000, "more than 100,000 bytes in a line"),
    ],
)
def test_a_broken_file(old: str, new: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(transduce.UserError, match=re.escape(message)) as raised:
        read(tmp_path / "model.arpa", TEXT.replace(old, new, 1))
    assert str(raised.value).startswith(str(tmp_path / "model.arpa"))
    assert "\n" not in str(raised.value)


def test_other_broken_files(tmp_path: Path) -> None:
    zipped = gzip.compress(TEXT.encode())
    for broken in (zipped[:-20], zipped[:20] + b"\xff" * 40 + zipped[60:]):
        with pytest.raises(transduce.UserError, match="cut off or damaged"):
            read(tmp_path / "model.arpa", broken)
    with pytest.raises(transduce.UserError, match="is not UTF-8"):
        read(tmp_path / "model.arpa", TEXT.encode("latin-1"))
    unbegun = TEXT.replace("<s>", "begin")
    with pytest.raises(transduce.UserError, match="has no word <s>, which begins or ends a sentence"):
        read(tmp_path / "model.arpa", unbegun)


# ---------------------------------------------------------------------- runs

LINES = ["the dog barks", "the cat sleeps", "a dog sleeps", "the dog sleeps", "a cat barks at the dog"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("arpa")
    (folder / "a.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    files = {f"data.{split}.path": str(folder / "a.txt") for split in ("train", "valid", "test")}
    settings = files | {"model.order": 3, "data.units.target": "words"}
    transduce.train("ptb-ngram", folder / "run", settings, device="cpu", progress=False)
    return folder / "run"


def test_from_a_run_to_a_file_and_back(run: Path, call: Call, tmp_path: Path) -> None:
    status, out, err = call("ngram", run, "--out", tmp_path / "model.arpa.gz")
    assert status == 0, err
    assert out.endswith("model.arpa.gz\n")
    assert "3-grams" in out
    lines = tmp_path / "lines.txt"
    lines.write_text("the dog sleeps\nsleeps bird the\n\n", encoding="utf-8")
    status, out, err = call("ngram", tmp_path / "model.arpa.gz", "--like", run, "--out", tmp_path / "again")
    assert status == 0, err
    scores = [call("score", each, lines)[1].split() for each in (run, tmp_path / "again")]
    assert len(scores[0]) == 3
    assert [float(x) for x in scores[1]] == pytest.approx([float(x) for x in scores[0]], abs=1e-4)
    # without --like, the words are what the file separates by spaces
    status, out, err = call("ngram", tmp_path / "model.arpa.gz", "--out", tmp_path / "own")
    assert status == 0, err
    marked = tmp_path / "marked.txt"
    marked.write_text("\u2581the \u2581dog \u2581sleeps\n\u2581sleeps bird \u2581the\n\n", encoding="utf-8")
    own = call("score", tmp_path / "own", marked)[1].split()
    assert [float(x) for x in own] == pytest.approx([float(x) for x in scores[0]], abs=1e-4)
    status, _, err = call("ngram", tmp_path / "model.arpa.gz", "--out", run)
    assert (status, "already holds a run" in err) == (2, True)


def test_a_pruned_run(run: Path, call: Call, tmp_path: Path) -> None:
    status, out, err = call("ngram", run, "--prune", "0.01", "--out", tmp_path / "small")
    assert status == 0, err
    before, after = (sum(NgramModel.from_run(each).ngrams.counts) for each in (run, tmp_path / "small"))
    assert before > after > 20
    status, out, err = call("evaluate", tmp_path / "small", "--json")
    assert status == 0, err
    assert 1 < json.loads(out)["metrics"]["perplexity"] < 9


def test_what_is_no_ngram_model(run: Path, trained: Path, call: Call, tmp_path: Path) -> None:
    for arguments, message in (
        ([trained], "an n-gram language model was expected"),
        ([run, "--like", trained], "is a run with its own: leave it out"),
        ([tmp_path / "nothing.arpa"], "there is no such file"),
        ([run, "--prune", "nan"], "--prune nan: a finite number was expected"),
    ):
        status, _, err = call("ngram", *arguments)
        assert status == 2
        assert message in err
        assert err.count("\n") == 1
    (tmp_path / "model.arpa").write_text(TEXT, encoding="utf-8")
    status, _, err = call("ngram", tmp_path / "model.arpa", "--like", trained)
    assert (status, "is in the target vocabulary" in err) == (2, True)

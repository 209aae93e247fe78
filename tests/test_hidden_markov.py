"""Hidden Markov models of labels, against a slow one of dictionaries, and a run from files to labels."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import transduce
from families import FACTS, paired
from transduce import config
from transduce.data.tokenizers.spelled import Spelled, SpelledTokenizer
from transduce.data.tokenizers.text import Characters, Symbols, TextTokenizer
from transduce.models.hidden_markov import HiddenMarkov
from transduce.protocols import Model
from transduce.statistical.back_off import BackOff
from transduce.statistical.kneser_ney import estimate
from transduce.training.begin import train
from transduce.types import BOS, EOS, Facts, Padded

Call = Callable[..., tuple[int, str, str]]
SENTENCES = [
    "The/D dog/N barks/V",
    "the/D cats/N sleep/V",
    "a/D dog/N sleeps/V",
    "dogs/N bark/V",
    "Anna/P barks/V",
    "Ben/P sees/V the/D cat/N",
    "the/D bark/N hurts/V",
    "Anna/P sees/V dogs/N",
    "sleep/N hurts/V",
]
TAGGED = [[tuple(word.split("/")) for word in sentence.split()] for sentence in SENTENCES]
TEXTS = [" ".join(word for word, _ in sentence) for sentence in TAGGED]
LABELS = [" ".join(label for _, label in sentence) for sentence in TAGGED]


class Slow:
    """The same model, a question at a time; ``end`` and ``begin`` close what an affix is of."""

    def __init__(self, target: TextTokenizer, prefix: int, suffix: int, rare: int, strength: float) -> None:
        self.target, self.prefix, self.suffix, self.strength = target, prefix, suffix, strength
        self.pairs = Counter(pair for sentence in TAGGED for pair in sentence)
        self.words = Counter(word for sentence in TAGGED for word, _ in sentence)
        self.labels = Counter(label for sentence in TAGGED for _, label in sentence)
        self.rare = {pair: count for pair, count in self.pairs.items() if self.words[pair[0]] <= rare}

    def prior(self, label: str) -> float:
        return (self.labels[label] + 1) / (sum(self.labels.values()) + len(self.target))

    def affix(self, label: str, wanted: str, longest: int, turned: bool) -> float:
        """p(label | the longest beginning of ``wanted`` that is there more than once), or end."""

        def count(affix: str, label: str | None = None) -> int:
            words = ((word[::-1] if turned else word, own, n) for (word, own), n in self.rare.items())
            return sum(n for word, own, n in words if f"{word}$".startswith(affix) and label in (None, own))

        share = (count("", label) + self.strength * self.prior(label)) / (count("") + self.strength)
        for length in range(1, min(longest, len(wanted) + 1) + 1):
            affix = f"{wanted}$"[:length]
            if count(affix) < 2:
                break
            share = (count(affix, label) + self.strength * share) / (count(affix) + self.strength)
        return share

    def spelled(self, word: str) -> dict[str, float]:
        shares = {
            label: self.affix(label, word, self.prefix, False)
            * self.affix(label, word[::-1], self.suffix, True)
            / self.affix(label, word, 0, False)
            for label in self.target.entries
        }
        return {label: share / sum(shares.values()) for label, share in shares.items()}

    def observed(self, word: str, label: str) -> float:
        seen, own = self.words[word], self.pairs[word, label]
        return math.log((own + self.strength * self.spelled(word)[label]) / (seen + self.strength) / self.prior(label))


def tokenizers(**words: Any) -> tuple[SpelledTokenizer, TextTokenizer]:
    return Spelled(Characters(), Symbols(**words)).learn(TEXTS), Symbols().learn(LABELS)


def counted(source: Any, target: TextTokenizer, texts: list[str], **options: Any) -> Any:
    words = getattr(source, "words", 0)
    facts = Facts(len(source) - words, len(target), source_words=words)
    model: Any = config.build({"type": "hmm", **options}, Model, facts, "model")
    counts = model.double().counts(paired(list(zip(source.encode(texts), target.encode(LABELS), strict=True))))
    uniform = counts.reestimate()
    assert uniform == pytest.approx(-math.log(len(target) - 3) * sum(map(len, TAGGED)))
    assert uniform < counts.reestimate() == counts.reestimate() < 0
    counts.store()
    assert counts.tokens == sum(len(sentence) + 1 for sentence in TAGGED)
    return model


@pytest.mark.parametrize(
    "options",
    [
        {"prefix": 1, "suffix": 3, "rare": 10, "strength": 1.0},
        {"prefix": 0, "suffix": 9, "rare": 2, "strength": 0.3},
        {"prefix": 2, "suffix": 0, "rare": 1, "strength": 4.0},
    ],
    ids=str,
)
def test_words_known_and_unknown(options: dict[str, Any]) -> None:
    """What is read of a word is log p(label | word) / p(label), by counts and by affixes."""
    source, target = tokenizers()
    model = counted(source, target, TEXTS, **options)
    slow = Slow(target, **options)
    sentence = "the dog Arks dogs I barking Anna xyz ß"
    trellis = model.trellis(Padded.of([source.encode([sentence])[0]]))
    assert trellis.lengths.tolist() == [9]
    for word, unary_L in zip(sentence.split(), trellis.unary[0], strict=True):
        wanted = [slow.observed(word, label) for label in target.entries]
        assert unary_L.tolist() == pytest.approx(wanted, abs=1e-5), word


def test_labels_follow_each_other_as_n_grams_do() -> None:
    source, target = tokenizers()
    model = counted(source, target, TEXTS, suffix=2)
    V = len(target)
    bigrams = BackOff().double()
    bigrams.learn(estimate([np.array(ids[:-1]) for ids in target.encode(LABELS)], V, 2))

    def log_prob(after: int, label: int) -> float:
        return float(bigrams(torch.tensor([after]), torch.tensor([label]))[0])

    trellis = model.trellis(Padded.of([source.encode(["the dog"])[0]]))
    for i in range(V):
        assert float(trellis.start[i]) == pytest.approx(log_prob(bigrams.begun, i))
        _, after = bigrams(torch.tensor([0]), torch.tensor([i]))
        assert float(trellis.end[i]) == pytest.approx(log_prob(int(after), V))
        assert trellis.transition[i].tolist() == pytest.approx([log_prob(int(after), j) for j in range(V)])


def test_words_that_are_known_by_their_small_letters() -> None:
    """ "The" and "the" are one known word, and what their spelling says of it is the mean of both."""
    source, target = tokenizers(lowercase=True)
    options: dict[str, Any] = {"prefix": 1, "suffix": 2, "rare": 10, "strength": 1.0}
    model, slow = counted(source, target, TEXTS, **options), Slow(target, **options)
    trellis = model.trellis(Padded.of([source.encode(["The the"])[0]]))
    assert trellis.unary[0, 0].tolist() == trellis.unary[0, 1].tolist()
    spelled = (slow.spelled("The")["D"] + 3 * slow.spelled("the")["D"]) / 4
    wanted = math.log((4 + spelled) / (4 + 1) / slow.prior("D"))
    assert float(trellis.unary[0, 0, target.encode(["D"])[0][0]]) == pytest.approx(wanted, abs=1e-5)


def test_tokens_are_words_where_nothing_is_spelled() -> None:
    """Of those that were not seen no more is known than of rare ones."""
    source, target = Symbols(minimum_count=2).learn(TEXTS), Symbols().learn(LABELS)
    model = counted(source, target, TEXTS, rare=2)
    noun, unknown, dog = target.encode(["N"])[0][0], *(source.encode([word])[0][0] for word in ("hurting", "dog"))
    slow = Slow(target, 0, 0, 2, 1.0)
    words = Counter({word: n for word, n in slow.words.items() if n > 1})
    once = [label for sentence in TAGGED for word, label in sentence if word not in words]
    rare = Counter(label for sentence in TAGGED for word, label in sentence if words[word] == 2)
    guess = (rare["N"] + slow.prior("N")) / (sum(rare.values()) + 1)
    trellis = model.trellis(Padded.of([[unknown, dog, 0, EOS], [EOS]]))
    assert trellis.lengths.tolist() == [3, 0]
    for place, (own, seen) in enumerate([(once.count("N"), len(once)), (2, 2), (0, 0)]):
        wanted = math.log((own + guess) / (seen + 1) / slow.prior("N"))
        assert float(trellis.unary[0, place, noun]) == pytest.approx(wanted, abs=1e-5)


def test_what_cannot_be_counted_says_so() -> None:
    source, target = tokenizers()
    facts = Facts(len(source) - source.words, len(target), source_words=source.words)
    with pytest.raises(ValueError, match=r"the source is spelled, and prefix and suffix are 0: set model.prefix or"):
        config.build({"type": "hmm"}, Model, facts, "model")
    with pytest.raises(ValueError, match="each step of the source has 2: set data"):
        config.build({"type": "hmm"}, Model, Facts(9, 11, source_factors=2), "model")
    model: Any = config.build({"type": "hmm", "suffix": 2}, Model, FACTS, "model")
    with pytest.raises(ValueError, match=r'does not say where its words begin: set data.units.source to "spelled"'):
        model.counts(paired([([4, 5, EOS], [4, 5, EOS])])).reestimate()
    plain: Any = config.build({"type": "hmm"}, Model, FACTS, "model")
    with pytest.raises(ValueError, match="has not been counted, or not with these words: train it first"):
        plain.trellis(Padded.of([[4, EOS]]))
    with pytest.raises(ValueError, match="the source is spelled, and prefix and suffix are 0"):
        plain.counts(paired([([BOS, 4, 5, EOS], [4, EOS])])).reestimate()
    with pytest.raises(ValueError, match="3 labels for a source of 2"):
        plain.counts(paired([([4, 5, EOS], [4, 5, 6, EOS])])).reestimate()
    pairs = paired([([4, EOS], [4, EOS])])
    pairs.source.ids = pairs.source.ids.astype(np.float32)
    with pytest.raises(ValueError, match="counts tokens, and the data has numbers"):
        plain.counts(pairs)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"prefix": -1}, "prefix = -1: at least 0"),
        ({"suffix": -2}, "suffix = -2: at least 0"),
        ({"rare": 0}, "rare = 0: at least 1"),
        ({"strength": 0.0}, "strength = 0.0: a number of more than 0"),
        ({"strength": math.nan}, "strength = nan: a number of more than 0"),
        ({"strength": math.inf}, "strength = inf: a number of more than 0"),
    ],
    ids=str,
)
def test_options_that_cannot_be(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        HiddenMarkov(9, 0, 1, 11, **options)


# ------------------------------------------------------------------------- a run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recipe, of files as people have them."""
    folder = tmp_path_factory.mktemp("hmm")
    blank = "\t_" * 6
    rows = ("\n".join(f"{n}\t{w}\t_\t{t}{blank}" for n, (w, t) in enumerate(each, 1)) for each in TAGGED)
    (folder / "a.conllu").write_text("\n\n".join(rows) + "\n", encoding="utf-8")
    files = {f"data.{split}.path": str(folder / "a.conllu") for split in ("train", "valid", "test")}
    transduce.train("tagging-hmm", folder / "run", files, device="cpu", progress=False)
    return folder / "run"


def test_from_files_to_labels(run: Path, call: Call, tmp_path: Path) -> None:
    status, out, err = call("predict", run, stdin=b"the cat barks\n\nBella hurts a cow\n")
    assert (status, out) == (0, "D N V\n\nP V D N\n"), err
    status, out, _ = call("predict", run, "--set", "search.type=posterior", stdin=b"the cat barks\n")
    assert (status, out) == (0, "D N V\n")
    status, out, _ = call("predict", run, "--nbest", "2", "--format", "tsv", stdin=b"the cat\n")
    assert out.splitlines()[0].split("\t")[2] == "D N"
    status, out, err = call("evaluate", run, "--json", "--errors")
    assert (status, json.loads(out)["metrics"]["accuracy"] > 90) == (0, True), err
    (tmp_path / "pairs.tsv").write_text("the dog\tD N\nthe dog\tN D\n", encoding="utf-8")
    status, out, _ = call("score", run, tmp_path / "pairs.tsv")
    right, wrong = map(float, out.split())
    assert 0 > right > wrong


def test_what_has_been_counted_is_told_and_left_alone(run: Path) -> None:
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    before, after = (event["loss"] for event in events if event["event"] == "update")
    assert before > after
    weights = run / "checkpoints" / "best" / "model.safetensors"
    made = weights.stat().st_ino
    transduce.train("tagging-hmm", run, resume=True, progress=False, device="cpu")
    assert weights.stat().st_ino == made


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"objective": {"type": "cross-entropy"}}, r"objective: CrossEntropy asks .*HiddenMarkov does not.*'chain-lik"),
        ({"search": {"type": "beam"}}, r"search: .*HiddenMarkov does not; set search to .*'viterbi'"),
        ({"training": {"epochs": 2, "freeze": ["known"]}}, "training.freeze: HiddenMarkov is counted"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(run: Path, changes: config.Table, expected: str, tmp_path: Path) -> None:
    settings = config.read(run / "config.toml")
    with pytest.raises(config.ConfigError, match=expected):
        train(settings | changes, tmp_path / "run")
    assert not (tmp_path / "run" / "config.toml").exists()


def test_the_first_thing_one_tries_says_what_to_set(run: Path, tmp_path: Path) -> None:
    """Only the model is changed, in a file of another recipe: by what to measure it is told."""
    settings = config.read(run / "config.toml") | {"objective": {"type": "parallel-cross-entropy"}}
    with pytest.raises(config.ConfigError, match="set objective to 'chain-likelihood'"):
        train(settings, tmp_path / "run")


def test_lines_are_counted_together_whatever_the_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few lines at a time where there are many labels: the same model."""
    source, target = tokenizers()
    models = [counted(source, target, TEXTS, prefix=1, suffix=2)]
    monkeypatch.setattr("transduce.models.hidden_markov.CELLS", 2 * len(target) ** 2)
    models.append(counted(source, target, TEXTS, prefix=1, suffix=2))
    for one, two in zip(*(model.parameters() for model in models), strict=True):
        assert torch.equal(one, two)

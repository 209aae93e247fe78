"""Hidden Markov models of labels, against a slow model of dictionaries, and a run from files to labels."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

import transduce
from families import FACTS, paired
from selection import mostly_slow
from transduce.core import config
from transduce.core.config.user_data import Merged
from transduce.core.errors import UserError
from transduce.core.protocols import Model
from transduce.core.types import BOS, EOS, UNK, Facts, Padded
from transduce.data.tokenizers.text import Characters, Symbols, TextTokenizer
from transduce.training.begin import train
from transduce.training.job import Job
from transduce.wings.counted.hidden_markov.words import WordEmissions
from transduce.wings.counted.kneser_ney import estimate
from transduce.wings.counted.ngram_lookup import NgramLookup
from transduce.wings.labels.spelled import Spelled, SpelledTokenizer
from transduce.wings.looking.inspection.label_posteriors import label_posteriors, places_of
from transduce.wings.signals.tokenizers.numbers import Numbers

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
    """The same emissions, one word at a time. ``$`` marks the end of a word in the keys of affixes."""

    def __init__(
        self, target: TextTokenizer, shapes: bool = False, lower: bool = False, tagged: Any = TAGGED, **options: Any
    ) -> None:
        self.target, self.shapes, self.lower = target, shapes, lower
        self.options = {"prefix": 0, "suffix": 0, "rare": 10, "strength": 1.0, "abstraction": 4.0} | options
        self.tokens = [(word, tag, not place) for each in tagged for place, (word, tag) in enumerate(each)]
        spelled = Counter(word for word, _, _ in self.tokens)
        self.rare = [token for token in self.tokens if spelled[token[0]] <= self.options["rare"]]

    def shape(self, word: str) -> int:
        capitals = sum(letter.isupper() for letter in word)
        return (2 if capitals == len(word) > 1 else int(capitals > 0)) if self.shapes else 0

    def form(self, word: str) -> tuple[str, int]:
        return word.lower() if self.lower else word, self.shape(word)

    def prior(self, label: str) -> float:
        return (sum(tag == label for _, tag, _ in self.tokens) + 1) / (len(self.tokens) + len(self.target))

    def affix(self, label: str, word: str, first: bool, turned: bool) -> float:
        """p(label | the longest prefix or suffix of ``word`` that occurs more than once)."""

        def key(word: str, first: bool) -> str:
            own = f"{self.shape(word)}{word[::-1]}$" if turned else f"{first:d}{word}$"
            longest = self.options["suffix" if turned else "prefix"]
            return own[: longest + 1] if longest else ""

        strength = self.options["abstraction"]
        keyed = [(key(word, first), tag) for word, tag, first in self.rare]
        own = key(word, first)
        share = self.prior(label)
        for length in range(len(own) + 1):
            tags = [tag for each, tag in keyed if each.startswith(own[:length])]
            if length and len(tags) < 2:
                break
            share = (tags.count(label) + strength * share) / (len(tags) + strength)
        return share

    def spelled(self, word: str, first: bool) -> dict[str, float]:
        shares, strength, tags = {}, self.options["abstraction"], [tag for _, tag, _ in self.rare]
        for label in self.target.entries:
            empty = (tags.count(label) + strength * self.prior(label)) / (len(tags) + strength)
            both = self.affix(label, word, first, False) * self.affix(label, word, first, True)
            shares[label] = both / empty
        return {label: share / sum(shares.values()) for label, share in shares.items()}

    def guess(self, word: str, first: bool) -> dict[str, float]:
        """p(label | word) of an unknown form. The word's other shapes count too if it begins a line."""
        shares, strength = self.spelled(word, first), self.options["strength"]
        if not (self.shapes and first):
            return shares
        same = [tag for other, tag, _ in self.tokens if self.form(other)[0] == self.form(word)[0]]
        return {
            label: (same.count(label) + strength * share) / (len(same) + strength) for label, share in shares.items()
        }

    def observed(self, word: str, label: str, first: bool) -> float:
        forms: dict[tuple[str, int], list[tuple[str, str, bool]]] = {}
        for token in self.tokens:
            forms.setdefault(self.form(token[0]), []).append(token)
        if self.form(word) not in forms:
            return math.log(self.guess(word, first)[label] / self.prior(label))
        strength, joint = self.options["strength"], {}
        for form, tokens in forms.items():
            guess = sum(self.guess(other, begins)[label] for other, _, begins in tokens) / len(tokens)
            joint[form] = sum(tag == label for _, tag, _ in tokens) + strength * guess
        total = len(self.tokens) + strength * len(forms)
        share = (len(forms[self.form(word)]) + strength) / total
        return math.log(joint[self.form(word)] / sum(joint.values()) / share)


def tokenizers(shapes: bool = False, **words: Any) -> tuple[SpelledTokenizer, TextTokenizer]:
    return Spelled(Characters(), Symbols(**words), shapes).learn(TEXTS), Symbols().learn(LABELS)


def facts_of(source: Any, target: TextTokenizer) -> Facts:
    words = getattr(source, "words", 0)
    return Facts(len(source) - words, len(target), source_words=words, source_shapes=source.shapes)


def hmm(facts: Facts, order: int = 1, **emission: Any) -> Any:
    table = {"type": "hmm", "order": order, "emission": {"type": "words", **emission}}
    return cast(Any, config.build(table, Model, facts, "model")).double()


def counted(source: Any, target: TextTokenizer, texts: list[str], order: int = 1, **options: Any) -> Any:
    model = hmm(facts_of(source, target), order, **options)
    counts = model.counts(paired(list(zip(source.encode(texts), target.encode(LABELS), strict=True))))
    uniform = counts.reestimate()
    assert uniform == pytest.approx(-math.log(len(target) - 4) * sum(map(len, TAGGED)))
    assert uniform < counts.reestimate() == counts.reestimate() < 0
    counts.store()
    assert counts.tokens == sum(len(sentence) + 1 for sentence in TAGGED)
    return model


OPTIONS = [
    {"prefix": 1, "suffix": 3, "rare": 10, "strength": 1.0},
    {"prefix": 0, "suffix": 9, "rare": 2, "strength": 0.3, "abstraction": 1.0},
    {"prefix": 2, "suffix": 0, "rare": 1, "strength": 4.0},
]
TRIED = [(*cased, options) for cased in ((False, False), (False, True), (True, True)) for options in OPTIONS]


@pytest.mark.parametrize(("shapes", "lower", "options"), mostly_slow(TRIED, fast=TRIED[::4]))
def test_words_known_and_unknown(options: dict[str, Any], shapes: bool, lower: bool) -> None:
    """The score of a word is log p(word | label) - log p(word), from counts and from affixes."""
    source, target = tokenizers(shapes, lowercase=lower)
    model = counted(source, target, TEXTS, **options)
    slow = Slow(target, shapes, lower, **options)
    for sentence in ("the dog Arks The dogs I barking Anna xyz ß", "Barks THE", "Ben"):
        trellis = model.trellis(Padded.of([source.encode([sentence])[0]]))
        assert trellis.lengths.tolist() == [len(sentence.split())]
        for place, word in enumerate(sentence.split()):
            wanted = [slow.observed(word, label, not place) for label in target.entries]
            assert trellis.unary[0, place].tolist() == pytest.approx(wanted, abs=1e-5), word


@pytest.mark.parametrize("order", [1, 2])
def test_labels_follow_each_other_as_n_grams_do(order: int) -> None:
    source, target = tokenizers()
    model = counted(source, target, TEXTS, order, suffix=2)
    V = len(target)
    ngrams = NgramLookup().double()
    ngrams.learn(estimate([np.array(ids[:-1]) for ids in target.encode(LABELS)], V, order + 1))

    def log_prob(after: int, label: int) -> float:
        return float(ngrams(torch.tensor([after]), torch.tensor([label]))[0])

    trellis = model.trellis(Padded.of([source.encode(["the dog"])[0]]))
    assert trellis.start.tolist() == pytest.approx([log_prob(ngrams.begun, j) for j in range(V)])
    for number, labels in enumerate(itertools.product(range(V), repeat=order)):
        if any(label == BOS for label in labels[1:]):  # BOS stands only before the first label
            continue
        after = torch.tensor([ngrams.begun])
        for label in labels:
            after = after if label == BOS else ngrams(after, torch.tensor([label]))[1]
        assert float(trellis.end[number]) == pytest.approx(log_prob(int(after), V))
        assert trellis.transition[number].tolist() == pytest.approx([log_prob(int(after), j) for j in range(V)])


def test_tokens_are_words_where_nothing_is_spelled() -> None:
    """Words without a spelling: all unseen words share the counts of the rare words."""
    source, target = Symbols(minimum_count=2).learn(TEXTS), Symbols().learn(LABELS)
    model = counted(source, target, TEXTS, rare=2)
    words = Counter(word for sentence in TAGGED for word, _ in sentence)
    tagged = [[(word if words[word] > 1 else "<unk>", tag) for word, tag in sentence] for sentence in TAGGED]
    slow = Slow(target, tagged=tagged, rare=2)
    unknown, dog = (source.encode([word])[0][0] for word in ("hurting", "dog"))
    trellis = model.trellis(Padded.of([[unknown, dog, 0, EOS], [EOS]]))
    assert trellis.lengths.tolist() == [3, 0]
    for place, word in enumerate(("<unk>", "dog", "<pad>")):
        wanted = [slow.observed(word, label, not place) for label in target.entries]
        assert trellis.unary[0, place].tolist() == pytest.approx(wanted, abs=1e-5)


def test_what_cannot_be_counted_says_so() -> None:
    source, target = tokenizers()
    facts = facts_of(source, target)
    with pytest.raises(ValueError, match=r"the source is spelled, and prefix and suffix are 0: set model.emission.pr"):
        hmm(facts)
    with pytest.raises(ValueError, match="each step of the source has 2: set data"):
        hmm(Facts(9, 11, source_factors=2))
    with pytest.raises(ValueError, match=r'does not say where its words begin: set data.units.source to "spelled"'):
        hmm(FACTS, suffix=2).counts(paired([([4, 5, EOS], [4, 5, EOS])])).reestimate()
    with pytest.raises(ValueError, match="has not been counted: train it first"):
        hmm(FACTS).trellis(Padded.of([[4, EOS]]))
    with pytest.raises(ValueError, match="the source is spelled, and prefix and suffix are 0"):
        hmm(FACTS).counts(paired([([BOS, 4, 5, EOS], [4, EOS])])).reestimate()
    with pytest.raises(ValueError, match="3 labels for a source of 2"):
        hmm(FACTS).counts(paired([([4, 5, EOS], [4, 5, 6, EOS])])).reestimate()
    with pytest.raises(ValueError, match=r"name no label: label some lines, or list the labels in data.units.target.a"):
        hmm(Facts(9, 4)).counts(paired([([4, 5, EOS], [UNK, UNK, EOS])]))
    for side, expected in (("source", "of words counts tokens, and the data has numbers"), ("target", "counts tokens")):
        pairs = paired([([4, EOS], [4, EOS])])
        getattr(pairs, side).ids = getattr(pairs, side).ids.astype(np.float32)
        with pytest.raises(ValueError, match=expected):
            hmm(FACTS).counts(pairs).reestimate()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"prefix": -1}, "prefix = -1: at least 0"),
        ({"suffix": -2}, "suffix = -2: at least 0"),
        ({"rare": 0}, "rare = 0: at least 1"),
        ({"strength": 0.0}, "strength = 0.0: a number of more than 0"),
        ({"strength": math.nan}, "strength = nan: a number of more than 0"),
        ({"abstraction": math.inf}, "abstraction = inf: a number of more than 0"),
    ],
    ids=str,
)
def test_options_of_words_that_cannot_be(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        WordEmissions(11, 9, 0, 1, 0, **options)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"order": 0}, "order = 0: at least 1"),
        ({"order": 9}, "order = 9 with 11 labels: .* set model.order = 8, or use fewer labels"),
        ({"prior": 0.0}, "prior = 0.0: a number of more than 0"),
        ({"unlabelled": math.nan}, "unlabelled: nan is not a finite number"),
    ],
    ids=str,
)
def test_options_that_cannot_be(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        config.build({"type": "hmm", "emission": "words", **options}, Model, FACTS, "model")


# ------------------------------------------------------------------------- a run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recipe, trained on a file in CoNLL-U format."""
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


def test_posteriors_are_sums_over_all_label_sequences(run: Path) -> None:
    trained, source = transduce.load(run), "a Bella hurts"
    found = label_posteriors(trained, source)
    trellis = trained.model.trellis(trained.padded([trained.read([source])[0].row]))
    names = trained.target_tokenizer.tokens(range(len(trained.target_tokenizer)))
    every = torch.tensor(list(itertools.product(range(len(names)), repeat=3)))  # special tokens too
    rows = replace(trellis, unary=trellis.unary.repeat(len(every), 1, 1), lengths=trellis.lengths.repeat(len(every)))
    p_N = rows.score(every).double().softmax(0)
    for place, (id, label) in itertools.product(range(3), enumerate(names)):
        summed = float(p_N[every[:, place] == id].sum())
        assert dict(found.best(place)).get(label, summed) == pytest.approx(summed, abs=1e-5)
    assert found.labels == tuple(names[UNK + 1 :])
    labelled_N = p_N.masked_fill((every <= UNK).any(1), 0.0)
    assert found.path == tuple(names[id] for id in every[labelled_N.argmax()])
    assert found.output.log_prob == pytest.approx(float(labelled_N.max().log()), abs=1e-5)


def test_inspect_shows_the_posteriors_of_a_chain(run: Path, call: Call, tmp_path: Path) -> None:
    head, *rows = call("inspect", run, "the cat barks", "--set=search.type=posterior")[1].splitlines()
    assert re.fullmatch(r"log p -\d+\.\d{3} of the labels in the second column", head)
    assert [row.split()[:3] for row in rows] == [["the", "D", "D"], ["cat", "N", "N"], ["barks", "V", "V"]]
    given = call("inspect", run, "the cat", "--target=D V")[1].splitlines()
    assert given[2].split()[:4] == ["cat", "V", "*", "N"]
    assert "labels for a source of 2" in call("inspect", run, "the cat", "--target=D")[2]
    assert "--head 1 is for attention" in call("inspect", run, "the cat", "--head=1")[2]
    assert call("inspect", run, "the cat", f"--out={tmp_path / 'labels.json'}")[0] == 0
    record = json.loads((tmp_path / "labels.json").read_text(encoding="utf-8"))
    assert [(place["text"], place["label"]) for place in record["places"]] == [("the", "D"), ("cat", "N")]
    assert 0.9 < sum(record["places"][1]["posteriors"].values()) <= 1
    pytest.importorskip("matplotlib")
    for suffix in ("html", "svg", "png"):
        assert call("inspect", run, "the cat $", f"--out={tmp_path / f'labels.{suffix}'}")[0] == 0
        assert (tmp_path / f"labels.{suffix}").stat().st_size > 1000
    page = (tmp_path / "labels.html").read_text(encoding="utf-8")
    assert re.search(r"<td>D [\d.]+ %", page)
    assert " 0.0 %" not in page  # labels that are never there


def test_places_of_signals_are_numbered_and_other_models_have_no_posteriors(run: Path, trained: Path) -> None:
    tokenizer = transduce.load(run).source_tokenizer
    assert places_of(tokenizer, "the cat", tokenizer.encode(["the cat"])[0], 2) == ("the", "cat")
    assert places_of(Numbers().learn(["1 2"]), "1 2", [1.0, 2.0, 2.0], 2) == ("1", "2")
    with pytest.raises(UserError, match="this encoder-decoder model gives no labels"):
        label_posteriors(transduce.load(trained, device="cpu"), "ab")


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
        train(Job(tmp_path / "run", Merged(settings | changes)))
    assert not (tmp_path / "run" / "config.toml").exists()


def test_the_first_thing_one_tries_says_what_to_set(run: Path, tmp_path: Path) -> None:
    """A user changes only the model in the file of another recipe. The error says which objective fits."""
    settings = config.read(run / "config.toml") | {"objective": {"type": "parallel-cross-entropy"}}
    with pytest.raises(config.ConfigError, match="set objective to 'chain-likelihood'"):
        train(Job(tmp_path / "run", Merged(settings)))


def test_lines_are_counted_together_whatever_the_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """If there are many labels, fewer lines are counted at a time. The model is the same."""
    source, target = tokenizers()
    models = [counted(source, target, TEXTS, prefix=1, suffix=2)]
    monkeypatch.setattr("transduce.wings.counted.hidden_markov.estimation.CELLS", 2 * len(target))
    models.append(counted(source, target, TEXTS, prefix=1, suffix=2))
    for one, two in zip(*(model.parameters() for model in models), strict=True):
        assert torch.equal(one, two)

"""The linear classifier of pairs of sentences: its features against words of strings, and what it learns."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch

import transduce
from families import paired
from transduce.core.errors import UserError
from transduce.core.types import EOS, Padded
from transduce.data.tokenizers.text import Words
from transduce.wings.engines.export.checked_export import export_run
from transduce.wings.labels.linear_pairs import LinearPairClassifier
from transduce.wings.labels.pair_features import pair_bags
from transduce.wings.labels.pairs import Pair

LINES = [
    "a man sings\ta man is singing",
    "no dog runs\ta dog runs",
    "a man sings a song\ta man sings no song",
    "a dog\ta dog",
    "cats\tno man",
    "a a a dog\ta dog dog",
]
UNIT = Pair(Words()).learn(LINES)


def padded(lines: list[str]) -> Padded:
    return Padded.of(UNIT.encode(lines))


def grams(text: str, apart: int) -> Counter[str]:
    words = ["^", *text.split(), "$"]
    pairs = [
        f"{one} {distance} {other}"
        for distance in range(1, apart + 1)
        for one, other in zip(words, words[distance:], strict=False)
    ]
    return Counter(words[1:-1] + pairs)


def expected(line: str, apart: int, crossed: int) -> list[Counter[str]]:
    """The features of each bag, named by words."""
    one, other = line.split("\t")
    first, second = (Counter(a.split()) - Counter(b.split()) for a, b in ((one, other), (other, one)))
    shared = sum((Counter(one.split()) & Counter(other.split())).values())
    few = max(len(first), len(second)) <= crossed
    alone = sum(first.values()), sum(second.values())
    numbers = [f"first {alone[0]}", f"second {alone[1]}", f"both {alone}", f"longer {alone[0] - alone[1]}"]
    return [
        grams(one, apart) & grams(other, apart),
        first,
        second,
        first + second,
        Counter(f"{a} > {b}" for a in [*first, "-"] for b in [*second, "-"] if few),
        Counter(" | ".join(sorted((a, b))) for a in first for b in second if few),
        Counter([*numbers, f"share {10 * shared // (shared + sum(alone))}"]),
    ]


@pytest.mark.parametrize(("apart", "crossed"), [(0, 9), (2, 9), (1, 2), (2, 0)])
def test_features_are_what_the_sentences_share_and_what_one_of_them_has(apart: int, crossed: int) -> None:
    """A key means the same words in all pairs, and other words have another key, in all bags together."""
    bags = pair_bags(padded(LINES), len(UNIT), apart, crossed)
    names: dict[int, tuple[int, str]] = {}
    for kind, bag in enumerate(bags):
        assert bool((bag.row_K[1:] >= bag.row_K[:-1]).all())
        possible: dict[int, set[str]] = {}
        wanted = [expected(line, apart, crossed)[kind] for line in LINES]
        for row, own in enumerate(wanted):
            keys, counts = bag.key_K[bag.row_K == row].tolist(), bag.count_K[bag.row_K == row].tolist()
            assert len(set(keys)) == len(keys)
            assert sorted(counts) == sorted(own.values())
            for key, count in zip(keys, counts, strict=True):
                same = {name for name, times in own.items() if times == count}
                possible[key] = possible.get(key, same) & same
        assert all(possible.values())
        assert len(possible) == len(set().union(*wanted))
        assert not names.keys() & possible.keys()
        names |= dict.fromkeys(possible, (kind, ""))


def test_a_pair_alone_has_the_logits_that_it_has_among_others() -> None:
    model = trained()
    together = model.start(padded(LINES))
    for row, line in enumerate(LINES):
        assert torch.allclose(model.start(padded([line]))[0], together[row], atol=1e-5)


def trained() -> LinearPairClassifier:
    model = LinearPairClassifier(len(UNIT), 8, 0)
    rows = UNIT.encode(LINES * 10)
    counts = model.counts(paired([(row, [4 + ("no" in line), 2]) for row, line in zip(rows, LINES * 10, strict=True)]))
    counts.reestimate()
    counts.store()
    return model


def test_it_learns_what_only_one_sentence_has() -> None:
    """A new pair with "no" in one sentence has the label of such pairs."""
    found = trained().start(padded(["a dog sings\tno dog sings", "a dog sings\ta dog sings"])).argmax(-1)
    assert found.tolist() == [5, 4]


@pytest.mark.parametrize("options", [{"minimum_count": 0}, {"apart": -1}, {"crossed": -1}])
def test_wrong_options_are_told(options: dict[str, int]) -> None:
    with pytest.raises(UserError, match=next(iter(options))):
        LinearPairClassifier(9, 9, 0, **options)


def test_one_sentence_is_no_pair() -> None:
    with pytest.raises(UserError, match="a source has one sentence"):
        trained().start(Padded.of([[5, 6, EOS]]))
    with pytest.raises(UserError, match="linear classifier of pairs has not been counted"):
        LinearPairClassifier(9, 9, 0).start(padded(LINES))


# --------------------------------------------------------------------- a run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    lines = [f"{n}\t{line}\t1\t{'other' if 'no' in line else 'same'}" for n, line in enumerate(LINES * 10)]
    (folder / "x.tsv").write_text("\n".join(lines))
    files = [f"data.{split}.path={folder / 'x.tsv'}" for split in ("train", "valid", "test")]
    transduce.train("entailment-linear", folder / "run", files, progress=False, device="cpu")
    return folder / "run"


def test_a_run_answers(run: Path) -> None:
    transducer = transduce.load(run, device="cpu")
    assert transducer("a dog sings\tno dog sings") == "other"
    assert transducer("a dog sings\ta dog sings") == "same"


@pytest.mark.parametrize("engine", ["native", "onnx"])
def test_an_export_is_refused_in_one_line(run: Path, tmp_path: Path, engine: str) -> None:
    with pytest.raises(UserError, match="linear-pair-classifier") as refused:
        export_run(run, engine, tmp_path / engine)
    assert "\n" not in str(refused.value)

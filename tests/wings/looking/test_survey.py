from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from transduce.data.corpora import Files
from transduce.data.preparation import prepare
from transduce.data.settings import Data, Lines, Units
from transduce.data.tokenizers.text import Characters, Symbols
from transduce.data.unknown import Unknown
from transduce.wings.looking.survey import Lengths, Sample, survey

TRAIN = ["ab\tA B", "abc\tA B C", "ab\tA B", "\tA", "ab\tB A", "aaaaaaaa\tA"]
VALID = ["ab\tA B", "ab\tX", "xy\tA"]


def tsv(path: Path, lines: list[str]) -> Files:
    path.write_text("".join(f"{line}\n" for line in lines))
    return Files(path=str(path))


@pytest.fixture
def data(tmp_path) -> Data:
    splits = {name: tsv(tmp_path / f"{name}.tsv", lines) for name, lines in (("train", TRAIN), ("valid", VALID))}
    return Data(Units(Characters(), Symbols()), **splits, lines=Lines(max_source_length=6))


def test_what_a_run_would_see(data, tmp_path):
    seen = survey(data, tmp_path / "cache")
    train, valid = seen.splits["train"], seen.splits["valid"]
    assert (seen.source_vocabulary, seen.target_vocabulary, seen.joint) == (4 + 3, 4 + 3, False)
    assert (train.tally.kept, valid.tally.kept) == (4, 3)
    assert {kind: found.count for kind, found in train.tally.findings.items()} == {"empty": 1, "overlong": 1}
    assert train.tally.findings["empty"].places == [f"{tmp_path / 'train.tsv'}:4"]
    assert (train.duplicates, train.seen_pairs, train.seen_sources) == (1, 0, 0)
    assert (valid.duplicates, valid.seen_pairs, valid.seen_sources) == (0, 1, 2)
    assert train.source.characters == Lengths(mean=(2 + 3 + 2 + 2 + 8) / 5, median=2, p95=3, p99=3, longest=8)
    assert train.target.tokens.longest == 3 + 1  # EOS
    assert not train.tally.unknown["source"]
    assert valid.tally.unknown["source"] == Unknown(2, 6, 3, 1, ("x", "y"))
    assert valid.tally.unknown["target"] == Unknown(1, 4, 3, 1, ("X",))
    assert valid.samples[1] == Sample("ab", "X", ("a", "b", "</s>"), ("<unk>", "</s>"))


def test_it_can_be_read_by_people(data, tmp_path):
    lines = survey(data, tmp_path / "cache").lines()
    assert lines[0] == "a vocabulary for each side: 7 source, 7 target"
    assert "train: 4 pairs" in lines
    assert f"  1 overlong (skip): {tmp_path / 'train.tsv'}:6" in lines
    assert "  source characters: mean 3.4, median 2, 95 % 3, 99 % 3, longest 8" in lines
    assert "  source: 2 of 6 tokens (33 %) in 1 of 3 lines are unknown to the model: x y" in lines
    assert f"  target tokens for each source token, ends counted: {15 / 22:.3f}" in lines
    assert "  0 duplicate pairs; in the training set too: 1 pairs, 2 sources" in lines
    assert "    -> <unk> </s>" in lines


def test_a_test_split_is_surveyed_and_may_lack_targets(data, tmp_path):
    (tmp_path / "test.txt").write_text("ab\nqq\n")
    asked = Data(data.units, train=data.train, test=Files(source=str(tmp_path / "test.txt")))
    seen = survey(asked, tmp_path / "cache").splits["test"]
    assert (seen.tally.kept, seen.seen_sources, seen.tally.unknown["source"].share) == (2, 1, 0.5)
    assert not seen.tally.unknown["target"]


def test_no_lengths_are_zero():
    import numpy as np

    assert Lengths.of(np.array([], np.int64)) == Lengths(0.0, 0, 0, 0, 0)


def test_names_of_special_tokens_in_a_text_are_told(data, tmp_path):
    """They are cut in two, which makes the second half certain and a perplexity look good."""
    files = tsv(tmp_path / "train.tsv", ["ab\tA <unk> B", "a<b\t<pad>", "ab\tA < unk>"])
    seen = survey(Data(data.units, train=files), tmp_path / "cache")
    assert (seen.splits["train"].source.special, seen.splits["train"].target.special) == (0, 2)
    told = [line for line in seen.lines() if "special token" in line]
    assert told == [
        "  target lines with <pad>, <s>, </s> or <unk>: 2; what is a special token's name is cut in two in a text, so "
        "give it another one (<unk>: UNK)"
    ]


UNTRAINED = (
    "warning: source has unknown tokens (2 in valid) and none in train, so <unk> is not trained: raise "
    "minimum_count of data.units.source (of bpe: set alphabet), or choose units without unknown tokens"
)


def test_an_unknown_token_that_training_never_has_is_a_warning(data, tmp_path):
    """Both the survey and the report of a run have the warning. If training has unknown tokens too, there is none."""
    for lines in (survey(data, tmp_path / "cache").lines(), prepare(data, tmp_path / "cache").report.lines()):
        assert [line for line in lines if "warning: source" in line] == [UNTRAINED]
    trained = replace(data, units=Units(Characters(minimum_count=3), Symbols(minimum_count=2)))
    for lines in (survey(trained, tmp_path / "cache").lines(), prepare(trained, tmp_path / "cache").report.lines()):
        assert not any("warning" in line for line in lines)

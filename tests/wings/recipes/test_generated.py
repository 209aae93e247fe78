"""Generated corpora: sums and XML documents, each checked against another way to find the answer."""

from __future__ import annotations

import re
from xml.dom import minidom

import pytest

from transduce.data.base import Origin
from transduce.data.corpora import DataError, Splits, present
from transduce.data.rows import read
from transduce.data.strings import Reverse
from transduce.wings.recipes.origins.arithmetic import Arithmetic, value
from transduce.wings.recipes.origins.xml import Xml, XmlDocuments, closing


def splits_of(splits: Splits) -> dict[str, list[tuple[str, str]]]:
    return {
        split: [(str(row.source), str(row.target)) for row in read(files)] for split, files in present(splits).items()
    }


@pytest.mark.parametrize("make", [Arithmetic, Xml, Reverse])
def test_a_corpus_is_a_function_of_its_settings(make, tmp_path):
    origin: Origin = make(pairs=300)
    splits = splits_of(origin.prepare(tmp_path / "a"))
    assert {split: len(found) for split, found in splits.items()} == {"train": 300, "valid": 100, "test": 100}
    sources = [source for found in splits.values() for source, _ in found]
    assert len(set(sources)) == len(sources)
    assert splits_of(make(pairs=300).prepare(tmp_path / "b")) == splits
    assert splits_of(make(pairs=300, seed=2).prepare(tmp_path / "c")) != splits


# ----------------------------------------------------------------- arithmetic


def test_sums_come_to_what_python_says(tmp_path):
    splits = splits_of(Arithmetic(pairs=2000, digits=3, distractors=2).prepare(tmp_path))
    sums = {split: [re.sub("[a-z]", "", source) for source, _ in found] for split, found in splits.items()}
    everything = [each for found in sums.values() for each in found]
    assert len(set(everything)) == len(everything)  # the letters between do not make a different sum
    pattern = re.compile(r"(-?)(\d{1,3})([+-])(\d{1,3})")
    parts = [pattern.fullmatch(each) for each in everything]
    assert all(parts)
    assert {(part[1], part[3]) for part in parts if part} == {("", "+"), ("", "-"), ("-", "+"), ("-", "-")}
    assert {len(part[n]) for part in parts if part for n in (2, 4)} == {1, 2, 3}
    for split, found in splits.items():
        for (source, target), written in zip(found, sums[split], strict=True):
            assert target == str(eval(written)) == str(value(written))
            assert re.fullmatch(r"([-+\d][a-z]{0,2})*\d", source)
    letters = [letters for found in splits.values() for source, _ in found for letters in re.findall("[a-z]+", source)]
    assert max(map(len, letters)) == 2


def test_without_distractors_sums_are_plain(tmp_path):
    splits = splits_of(Arithmetic(pairs=50, digits=3, distractors=0).prepare(tmp_path))
    assert all(str(value(source)) == target for found in splits.values() for source, target in found)


@pytest.mark.parametrize("options", [{"digits": 0}, {"distractors": -1}])
def test_sums_that_are_none_are_refused(options):
    with pytest.raises(DataError, match="at least one digit, and no fewer than 0 letters"):
        Arithmetic(**options)


def test_more_sums_than_there_are_cannot_be_drawn(tmp_path):
    with pytest.raises(DataError, match="cannot draw 100 different sums of numbers of at most 1 digits"):
        Arithmetic(pairs=100, digits=1).prepare(tmp_path)
    with pytest.raises(ValueError, match=r"'1\+' is not the sum of two numbers"):
        value("1+")


# ------------------------------------------------------------------------ XML


def test_beginnings_and_their_closing_tags_are_documents(tmp_path):
    splits = splits_of(Xml(pairs=500, steps=20).prepare(tmp_path))
    for source, target in (pair for found in splits.values() for pair in found):
        assert re.fullmatch(r"(</[a-z]{2,10}>)+", target)
        assert re.fullmatch(r"(</?[a-z]{2,10}>){1,20}", source)
        minidom.parseString(f"<all>{source}{target}</all>")  # raises where it is not well-formed
    depths = {target.count("</") for found in splits.values() for _, target in found}
    assert {1, 2, 3, 4} <= depths


def test_documents_are_whole_and_as_many_steps_long(tmp_path):
    splits = splits_of(XmlDocuments(documents=300, steps=12).prepare(tmp_path))
    assert [len(splits[name]) for name in ("train", "valid", "test")] == [300, 100, 100]
    texts = [text for found in splits.values() for _, text in found]
    assert len(set(texts)) == len(texts)
    for text in texts:
        minidom.parseString(f"<all>{text}</all>")
        assert closing(text) == ""
    assert max(text.count("<") for text in texts) <= 24
    assert max(text.count("</") for text in texts) > 6
    assert splits_of(XmlDocuments(documents=300, steps=12).prepare(tmp_path / "again")) == splits
    short = splits_of(XmlDocuments(documents=300, longest=3).prepare(tmp_path / "short"))["train"]
    assert {len(name) for _, text in short for name in re.findall("[a-z]+", text)} == {2, 3}


def test_what_is_open_is_closed_from_within():
    assert closing("<ab><cd></cd><ef>") == "</ef></ab>"
    assert closing("<ab></ab>") == ""
    for text in ("<ab><cd></ab>", "</ab>"):
        with pytest.raises(ValueError, match="is not well-formed: </ab> does not close"):
            closing(text)


def test_more_documents_than_there_are_is_an_error(tmp_path):
    """There are 676 documents that have one tag with a name of two letters."""
    with pytest.raises(DataError, match=r"1200 different texts were wanted, and 676 found: ask for fewer"):
        XmlDocuments(documents=1000, steps=1, longest=2).prepare(tmp_path)


def test_a_document_has_a_tag():
    with pytest.raises(DataError, match="steps = 0: at least one tag"):
        Xml(steps=0)
    with pytest.raises(DataError, match="steps = 0: at least one tag"):
        XmlDocuments(steps=0)
    with pytest.raises(DataError, match="longest = 1: a name has 2 letters at least"):
        XmlDocuments(longest=1)

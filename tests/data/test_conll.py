"""CoNLL files: words and their tags, sentence by sentence."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from transduce.data.corpora import ColumnNames, DataError, Files
from transduce.data.preparation import examples, prepare
from transduce.data.rows import CorpusRow, check, read
from transduce.data.settings import Data, Lines, Units
from transduce.data.tokenizers.text import Symbols

UNIVERSAL = """\
# text = It doesn't.
1\tIt\tit\tPRON\tPRP\t_\t2\tnsubj\t_\t_
2-3\tdoesn't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdoes\tdo\tAUX\tVBZ\t_\t0\troot\t_\t_
3\tn't\tnot\tPART\tRB\t_\t2\tadvmod\t_\tSpaceAfter=No
3.1\tgo\tgo\tVERB\tVB\t_\t_\t_\t_\t_

# a form with a space in it
1\t10 000\t10000\tNUM\tCD\t_\t0\troot\t_\t_
"""
ENTITIES = "-DOCSTART-\tO\n\n#ff\tO\nin\tO\nNew\tB-place\nYork\tI-place\n\n\n@me\tO"


def file(folder: Path, name: str, text: str) -> Files:
    path = folder / name
    data = text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return Files(path=str(path))


def test_universal_dependencies(tmp_path: Path) -> None:
    files = file(tmp_path, "a.conllu.gz", UNIVERSAL)
    assert list(read(files)) == [CorpusRow(2, "It does n't", "PRON AUX PART"), CorpusRow(8 + 1, "10_000", "NUM")]
    columns = ColumnNames(source="lemma", target=4)
    assert [row.target for row in read(files, columns)] == ["PRP VBZ RB", "CD"]
    assert [row.source for row in read(files, columns)] == ["it do not", "10000"]
    assert [row.target for row in read(files, ColumnNames(source="form"))] == [None, None]


@pytest.mark.parametrize("separator", ["\t", " "])
def test_entities(tmp_path: Path, separator: str) -> None:
    files = file(tmp_path, "a.conll", ENTITIES.replace("\t", separator))
    assert list(read(files)) == [CorpusRow(3, "#ff in New York", "O O B-place I-place"), CorpusRow(9, "@me", "O")]
    assert list(read(file(tmp_path, "none.conll", "\n\n"))) == []


def test_a_no_break_space_is_within_a_word(tmp_path: Path) -> None:
    files = file(tmp_path, "a.conll", "10\u00a0000  B-CARD \nfoo O\n")
    assert list(read(files)) == [CorpusRow(1, "10_000 foo", "B-CARD O")]


def test_bad_input(tmp_path: Path) -> None:
    files = file(tmp_path, "a.conll", "one\tO\ntwo\n\nthree\tO\n")
    broken, whole = read(files)
    assert broken.problem is not None
    assert (broken.problem.place, broken.problem.detail) == (
        f"{files.path}:2",
        "1 column found, at least 2 expected for columns 0, 1",
    )
    assert whole == CorpusRow(4, "three", "O")
    (tmp_path / "b.conll").write_bytes(b"caf\xe9\tO\n")
    (row,) = read(Files(path=str(tmp_path / "b.conll")))
    assert row.source == "caf�"
    assert row.problem is not None
    assert row.problem.detail == "byte 0xe9 at 3 is not UTF-8; as WINDOWS-1252 the text is 'café'"
    with pytest.raises(DataError, match=r"no column 'upos': its columns have numbers, from 0"):
        list(read(files, ColumnNames(source=0, target="upos")))
    with pytest.raises(DataError, match=r"no column 'pos': its columns are 'id', 'form'"):
        list(read(file(tmp_path, "c.conllu", UNIVERSAL), ColumnNames(source="form", target="pos")))
    with pytest.raises(DataError, match="labels of words, not of sentences"):
        list(read(files, ColumnNames(source=0, target=1, labels=(2,))))
    assert check(files) == 2


def data(files: Files, lines: Lines, source: object = None) -> Data:
    return Data(Units(source=source or Symbols(), target=Symbols()), train=files, lines=lines)  # type: ignore[arg-type]


def test_vocabularies_are_learned_on_a_sample_of_sentences(tmp_path: Path) -> None:
    """The sample counts sentences, not lines. If there are no more sentences than the sample, all of them are used."""
    files = file(tmp_path, "a.conll", "".join(f"a {tag}\n" * 5 + "\n" for tag in "QRST"))
    for sample, tags in ((4, "QRST"), (2, "QS")):
        units = Units(source=Symbols(), target=Symbols(), sample=sample)
        prepared = prepare(Data(units=units, train=files), tmp_path / "cache")
        assert prepared.target_tokenizer.entries[4:] == tuple(tags)


def test_sentences_are_examples(tmp_path: Path) -> None:
    files = file(tmp_path, "a.conll", ENTITIES)
    found = examples(Data(Units(target=Symbols(), source=Symbols()), test=files), "test", tmp_path)
    assert [(example.source, example.references) for example in found] == [
        ("#ff in New York", ("O O B-place I-place",)),
        ("@me", ("O",)),
    ]

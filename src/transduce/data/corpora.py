"""The files of a corpus: which ones each split has, their formats and columns, and their lines as bytes.

A split is parallel text files (one source and any number of targets, or one side alone), or one TSV, JSON-lines,
Parquet, CoNLL, text file, or file of trees; or several such corpora. All but Parquet may be gzipped, and ``rows.py``
reads them. Each may be on this machine or at an address (``addresses.py``), and divided into shards. Only "\\n" ends a
line ("\\r\\n" is accepted). U+2028, form feeds and similar characters are text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from stat import S_ISCHR, S_ISFIFO
from typing import Literal

from transduce.core.contents import JSON_LINES, PLAIN, TABLE
from transduce.core.errors import DataError as DataError
from transduce.core.text_files import LONGEST_LINE as LONGEST_LINE
from transduce.core.text_files import bounded_lines, kind_of, texts
from transduce.data.addresses import Address, Stored, matching, stored

Side = Literal["source", "target"]
Format = Literal["tsv", "csv", "jsonl", "txt", "dict", "conllu", "conll", "trees", "tmx", "parquet"]
FORMATS: dict[str, Format] = {
    ".tsv": "tsv",
    ".csv": "csv",
    ".tmx": "tmx",
    ".jsonl": "jsonl",
    ".json": "jsonl",
    ".txt": "txt",
    ".dict": "dict",
    ".conllu": "conllu",
    ".conll": "conll",
    ".trees": "trees",
    ".parquet": "parquet",
}


class LineError(DataError):
    """One side of a line does not have the labels, features, factors or numbers that its unit expects. ``line`` is the
    whole text of that side; the message has its first 60 characters, or the name that is ``shown`` instead.
    """

    def __init__(self, line: str, problem: str, shown: str | None = None) -> None:
        super().__init__(f"{repr(line[:60]) if shown is None else shown} {problem}")
        self.line, self.problem = line, problem

    def __reduce__(self) -> tuple[type[LineError], tuple[str, str]]:
        return type(self), (self.line, self.problem)  # a worker process raises it in this one


@dataclass(frozen=True)
class ColumnNames:
    """The columns to read: numbers from 0 (TSV, CoNLL), or names (a TSV file's header line, keys of JSON lines,
    CoNLL-U, and ``words``, ``pos`` and ``tree`` of a file of trees).

    The source is the columns ``labels`` and then the column ``source``, joined by tabs. Tabs and line breaks inside a
    label become spaces. A CoNLL file cannot have ``labels``: its reader refuses them. Without ``source`` the labels are
    the whole source. Without ``source`` and ``labels`` there are only targets, and without ``target`` only sources.
    Raises DataError if no column is given, or for a negative number.
    """

    source: str | int | None = None
    target: str | int | None = None
    labels: tuple[str | int, ...] = ()

    def __post_init__(self) -> None:
        if not self.all:
            raise DataError("columns without a source and without a target: expected at least one of them, or labels")
        for column in self.all:
            if isinstance(column, int) and column < 0:
                raise DataError(f"columns: there is no column {column}; they are numbered from 0, the first")

    @property
    def sources(self) -> tuple[str | int, ...]:
        """The columns that form the source: the labels, then the source. Empty if there are none."""
        return self.labels if self.source is None else (*self.labels, self.source)

    @property
    def all(self) -> tuple[str | int, ...]:
        """All columns that are given, in the order labels, source, target."""
        return self.sources if self.target is None else (*self.sources, self.target)


@dataclass(frozen=True)
class Files:
    """The files of one split: either one file, ``path``, or the parallel text files ``source`` and ``target``; or
    several ``corpora``, each of which is one of these.

    The suffix of ``path`` tells its format: .tsv, .csv, .jsonl (or .json), .txt, .dict, .conllu, .conll, .trees, .tmx
    or .parquet, each but the last optionally with .gz. The first line of a .csv file names its columns, unless
    ``columns`` are numbers. The columns of a .tmx file are languages. Each line of a .txt file is a target without a
    source. A .dict file is a dictionary in the form of CMUdict: a word and a pronunciation, with "read(2)" and further
    columns for several pronunciations of a word. Line n of one parallel file belongs to line n of the others.
    ``source`` alone gives only sources, and ``target`` alone only targets. Several files in ``target`` are several
    references of each source.

    A name may be a pattern, such as "shards/*.tsv": then the corpus is all files that match, sorted by name. Patterns
    of parallel files must match equally many. A name with a scheme ("s3://bucket/a.tsv") is an address that fsspec
    reads.

    ``tag`` is put before each source that has text, with a space between them. With the target's language as the tag,
    one model translates into several languages (Johnson et al. 2017). ``name`` stands for the corpus in reports
    (default: its first file's name). Training draws a corpus of n pairs in proportion to ``weight`` (default:
    1) times n^(1/T), where T is ``training.batching.temperature``.

    Raises DataError for any other combination. Checks neither the suffix nor whether the files exist.
    """

    path: str | None = None
    source: str | None = None
    target: str | tuple[str, ...] | None = None
    corpora: tuple[Files, ...] | None = None
    tag: str | None = None
    name: str | None = None
    weight: float | None = None

    def __post_init__(self) -> None:
        if self.corpora is not None:
            self._check_corpora(self.corpora)
            return
        if self.path is not None and self.source is None and self.target is not None:
            raise DataError(f"path={self.path!r} has both sides, so target={self.target!r} has no place: remove it")
        if (self.path is None) == (self.source is None and self.target is None):
            raise DataError(
                f"a split is either one file (path) or two (source, target), not path={self.path!r} with "
                f"source={self.source!r} and target={self.target!r}: give one or the other"
            )
        if self.target == ():
            raise DataError("target=[] names no file: leave it out where there are sources only")
        if self.path is None and self.source is None and len(self.targets) > 1:
            raise DataError(f"target={list(self.targets)!r} are several references of no source: name the file of it")
        if not 0 < self.share < float("inf"):
            raise DataError(f"weight = {self.weight}: a number above 0 was expected; leave the corpus out instead")
        if self.tag is not None and not self.tag.strip():
            raise DataError(f"tag = {self.tag!r}: expected some text, such as '__en__'; leave it out for no tag")

    def _check_corpora(self, corpora: tuple[Files, ...]) -> None:
        own = (self.path, self.source, self.target, self.tag, self.name, self.weight)
        if any(value is not None for value in own):
            raise DataError("a split of several corpora has no path, source, target, tag, name or weight of its own")
        if not corpora:
            raise DataError("corpora=[] names no corpus: give at least one, or a path")
        if any(corpus.corpora for corpus in corpora):
            raise DataError("corpora inside corpora: write all of them in one list")

    @property
    def parts(self) -> tuple[Files, ...]:
        """The corpora of the split: one, unless ``corpora`` has more."""
        return self.corpora or (self,)

    @property
    def share(self) -> float:
        """The weight of the corpus: 1 if none is given."""
        return 1.0 if self.weight is None else self.weight

    @property
    def shards(self) -> tuple[Files, ...]:
        """The corpora with one file for each pattern: what can be read one after the other.

        Raises DataError if a pattern matches nothing, or if the patterns of parallel files match unequally many files.
        """
        return tuple(shard for part in self.parts for shard in part._expanded())

    def _expanded(self) -> Iterator[Files]:
        given = [text for text in (self.path, self.source, *self.targets) if text is not None]
        found = [matching(text) for text in given]
        for text, files in zip(given, found, strict=True):
            if not files:
                raise DataError(f"no file matches {text!r}: check the folder and the pattern")
            if len(files) != len(found[0]):
                raise DataError(
                    f"{given[0]!r} matches {len(found[0])} files, and {text!r} matches {len(files)}: shard n of one "
                    "belongs to shard n of the other, so give equally many"
                )
        for names in zip(*found, strict=True):
            if self.path is not None:
                yield replace(self, path=names[0])
            else:
                rest = names if self.source is None else names[1:]
                yield replace(self, source=None if self.source is None else names[0], target=rest or None)

    @property
    def targets(self) -> tuple[str, ...]:
        """The files of ``target``. Empty if ``target`` is not given."""
        return () if self.target is None else (self.target,) if isinstance(self.target, str) else self.target

    @property
    def targets_only(self) -> bool:
        """True if these files can have no source: ``target`` without ``source``, or a .txt file as ``path``.

        False does not promise a source, because ``columns`` may leave it out. Raises DataError if the suffix of
        ``path`` tells no format.
        """
        if self.corpora:
            return all(corpus.targets_only for corpus in self.corpora)
        return self.source is None and (self.path is None or format_of(self.path) == "txt")

    @property
    def paths(self) -> tuple[Stored, ...]:
        """All files, of each shard in the order path, source, targets. "~" is replaced by the user's home folder.
        Raises DataError as ``shards`` does.
        """
        return tuple(
            stored(text)
            for shard in self.shards
            for text in (shard.path, shard.source, *shard.targets)
            if text is not None
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all files, without their folders."""
        return tuple(path.name for path in self.paths)

    @property
    def label(self) -> str:
        """The name of the corpus in reports."""
        return self.name or self.paths[0].name

    def located(self, source: str) -> str:
        """Joins the path of a signal to the folder of the first file of the split. An absolute path, and a text of
        white space alone, stay unchanged. Raises DataError if that file is at an address: signals are local files.
        """
        first = self.paths[0]
        if isinstance(first, Address):
            raise DataError(f"{first}: a file of signals names files beside it, which must be local; copy them first")
        return str(first.parent / source) if source.strip() else source

    def tagged(self, source: str | None) -> str | None:
        """The source with the tag before it. A source without text stays unchanged."""
        return source if self.tag is None or not source or not source.strip() else f"{self.tag} {source}"

    def place(self, side: Side, number: int) -> str:
        """The place "file:number" for messages: line ``number`` of ``path`` or, for parallel files, of the file of that
        side. Several target files are joined by " or ".
        """
        path = self.path or (self.source if side == "source" else " or ".join(self.targets))
        return f"{path}:{number}"


@dataclass(frozen=True)
class Splits:
    """The files for training, for the choice of settings, and for the final measurement. None stands for a missing
    split.
    """

    train: Files | None = None
    valid: Files | None = None
    test: Files | None = None


def present(splits: Splits) -> dict[str, Files]:
    """The splits that are not None, by their names "train", "valid" and "test", in this order."""
    named = {"train": splits.train, "valid": splits.valid, "test": splits.test}
    return {name: files for name, files in named.items() if files is not None}


def identity(path: Stored) -> tuple[str, int, int | str]:
    """Stands for the content of a file without reading it: its absolute path without symbolic links, its size in bytes
    and its modification time in nanoseconds. For a file at an address, see ``Address.identity``.

    Raises DataError if the file does not exist, or is a pipe or a device, which can be read only once.
    """
    if isinstance(path, Address):
        try:
            return path.identity()
        except OSError as error:
            raise _unreadable(path, error) from error
    try:
        stat = path.stat()
    except FileNotFoundError:
        raise DataError(f"no such file: {path}") from None
    if S_ISFIFO(stat.st_mode) or S_ISCHR(stat.st_mode):
        raise DataError(f"{path} can be read only once, and training reads its data several times: write it to a file")
    return str(path.resolve()), stat.st_size, stat.st_mtime_ns


def format_of(path: str) -> Format:
    """The format of a file, from the suffix of its name before an optional .gz. Raises DataError for a suffix that is
    not in ``FORMATS``.
    """
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    suffix = (suffixes[:-1] if suffixes[-1:] == [".gz"] else suffixes)[-1:]
    if not suffix or suffix[0] not in FORMATS:
        if "://" not in path and (local := Path(path).expanduser()).exists():
            found = kind_of(local)
            if found.name not in (PLAIN, TABLE, JSON_LINES):
                raise DataError(f"{path} is {found.name}, and a file of data was expected: {found.remedy}")
        raise DataError(
            f"cannot tell the format of {path!r} from its name: expected .tsv, .csv, .jsonl, .tmx, .conllu, .conll or "
            ".trees (or .txt, a target a line; or .dict, a word and its pronunciation), optionally with .gz after it, "
            "or .parquet; two parallel text files are given as source and target"
        )
    return FORMATS[suffix[0]]


# --------------------------------------------------------------------- lines


def lines(path: Stored, longest: int = LONGEST_LINE) -> Iterator[bytes]:
    """Yields the lines of a file as ``text_files.bounded_lines`` does. Raises DataError, too, if it is missing."""
    try:
        with path.open() if isinstance(path, Address) else path.open("rb") as file:
            yield from bounded_lines(file, str(path), longest, path.suffix.lower() == ".gz")
    except OSError as error:
        raise _unreadable(path, error) from error


def text_lines(path: Stored, longest: int = LONGEST_LINE) -> Iterator[str]:
    """Yields the lines of a file as text. Raises DataError as ``lines`` does, and at a line that is not UTF-8."""
    return texts(lines(path, longest), str(path))


def _unreadable(path: Stored, error: OSError) -> DataError:
    if isinstance(error, FileNotFoundError):
        return DataError(f"no such file: {path}")
    if isinstance(error, IsADirectoryError):
        return DataError(f"{path}: this is a folder, and a file was expected")
    return DataError(f"cannot read {path}: {error}")

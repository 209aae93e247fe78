"""Learns tokenizers and encodes the data, once. A second run with the same files and settings starts immediately.

Prepared data lies in one folder of the cache. Its name is a hash of the units, columns and policies, and of each
training and validation file's path, size and modification time. The hash also has the path, size and time of each
recording, of each picture and of each file that a unit names, and the tokenizers if they are given. So an edited,
replaced or removed file is noticed without reading it. The folder is written under a temporary name and renamed when it
is complete: a killed preparation leaves nothing half-written. If two processes prepare the same data, one of them wins
and both continue.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from functools import partial
from itertools import chain, groupby, islice
from pathlib import Path
from stat import S_ISDIR
from typing import cast

from transduce.core.contents import JSON_LINES, PLAIN, TABLE
from transduce.core.files import make_folder, name_from
from transduce.core.text_files import kind_of, read_json
from transduce.core.types import PAD, SPECIALS, Example, Facts
from transduce.data.addresses import Address, Stored
from transduce.data.base import SPLITS, Origin, Removed
from transduce.data.cleaning import Account, Report, Tally, left_out, usable
from transduce.data.corpora import DataError, Files, LineError, Side, Splits, identity, present
from transduce.data.encoding import encode, encoders, readable
from transduce.data.fingerprints import Fingerprint, Fingerprints, RowFingerprints
from transduce.data.fingerprints import as_json as fingerprints_as_json
from transduce.data.fingerprints import from_json as fingerprints_from_json
from transduce.data.pairs import Pairs, PairsWriter, RowType
from transduce.data.rows import CorpusRow, check
from transduce.data.settings import Data, Units
from transduce.data.tokenizers.base import Sourced, Tokenizer, Unit
from transduce.data.tokenizers.storage import load
from transduce.data.tokenizers.text import Characters, TextTokenizer
from transduce.data.vocabularies import check_learned

log = logging.getLogger("transduce")

FORMAT = 5  # raise it when what is written changes, or the vocabularies that are learned
REPORT, FINGERPRINTS, REMOVED = "report.json", "fingerprints.json", "removed.json"  # in the folder of prepared data
NOTHING = Characters()  # the unit of an absent source: only special tokens, and each row is one EOS


@dataclass(frozen=True)
class Tokenizers:
    """The tokenizers of both sides of a run. If there is one vocabulary for both sides, the two are equal. If there is
    no source, the source's tokenizer knows only the special tokens.
    """

    source: Tokenizer
    target: Tokenizer

    def save(self, folder: Path) -> None:
        """Writes source.json and target.json into the folder, which must exist."""
        self.source.save(folder / "source.json")
        self.target.save(folder / "target.json")

    def extended(self, other: Tokenizers) -> Tokenizers:
        """Returns new tokenizers: each side of these, extended by the same side of ``other`` (``Tokenizer.extended``:
        ids may change). Raises DataError if a vocabulary cannot grow.
        """
        return Tokenizers(self.source.extended(other.source), self.target.extended(other.target))

    @property
    def facts(self) -> Facts:
        """The facts about the data that constructors of models receive, as ``types.Facts`` describes them."""
        words = self.source.words
        return Facts(
            len(self.source) - words,
            len(self.target),
            self.source.factors,
            words,
            self.source.shapes,
            self.copies,
            self._target_entries,
            self.target.placeholders() if isinstance(self.target, Sourced) else (),
        )

    @property
    def _target_entries(self) -> tuple[str, ...]:
        """The entries of the target if it is text and each is a piece of text; otherwise empty."""
        if self.target.numeric:
            return ()
        entries = self.target.entries
        texts = tuple(entry for entry in entries if isinstance(entry, str))
        return texts if len(texts) == len(entries) else ()

    @property
    def copies(self) -> tuple[int, ...]:
        """For each source id the target id with the same entry, or PAD. Special tokens have PAD.

        Empty if a side is numbers, or if a source token has several ids (``factors``) or is a word of several pieces.
        """
        if self.source.numeric or self.target.numeric or self.source.factors > 1 or self.source.words:
            return ()
        places = {entry: place for place, entry in enumerate(self.target.entries)}
        spoken = self.source.entries[len(SPECIALS) :]
        return (PAD,) * len(SPECIALS) + tuple(places.get(entry, PAD) for entry in spoken)

    @property
    def conditional(self) -> bool:
        """True if there is a source: the source's side is numeric, or has more than the special tokens. A language
        model's has only these.
        """
        return self.source.numeric or len(self.source) > len(SPECIALS)

    @property
    def both(self) -> tuple[Tokenizer, Tokenizer]:
        return self.source, self.target

    @property
    def fingerprints(self) -> tuple[str, str]:
        """The hashes of both tokenizers, source first. Equal tokenizers have equal hashes."""
        return self.source.fingerprint, self.target.fingerprint

    def differing(self, other: Tokenizers, conditional: bool = True) -> list[str]:
        """The sides, "source" and "target", on which these tokenizers and ``other`` differ. An empty list if none
        differs.

        If ``conditional`` is False, only the target is compared, as for a language model.
        """
        sides = zip(("source", "target"), self.fingerprints, other.fingerprints, strict=True)
        return [side for side, ours, theirs in sides if ours != theirs and (conditional or side == "target")]

    @property
    def joint(self) -> bool:
        """True if both sides have equal vocabularies, whether or not they were learned together."""
        return len(set(self.fingerprints)) == 1 or self.source.entries == self.target.entries

    @classmethod
    def shared(cls, tokenizer: Tokenizer, units: Units) -> Tokenizers:
        """The tokenizers of both sides from the one of ``units.joint``."""
        return cls(cast(TextTokenizer, tokenizer).lowercased() if units.source_lowercase else tokenizer, tokenizer)

    @classmethod
    def load(cls, folder: Path) -> Tokenizers:
        return cls(load(folder / "source.json"), load(folder / "target.json"))


@dataclass(frozen=True)
class Prepared:
    """The result of ``prepare``: the tokenizers, the encoded pairs for training and validation, and the report on
    problems. ``valid`` is None without a validation set. ``weights`` has the weight of each corpus of the training set.
    ``fingerprints`` are of the files of both. ``removed`` are the rows of the training set that a filter has left out.
    """

    tokenizers: Tokenizers
    train: Pairs
    valid: Pairs | None
    report: Report
    weights: tuple[float, ...] = (1.0,)
    fingerprints: Fingerprints = field(default_factory=dict)
    removed: Removed = field(default_factory=dict)

    @property
    def source_tokenizer(self) -> Tokenizer:
        return self.tokenizers.source

    @property
    def target_tokenizer(self) -> Tokenizer:
        return self.tokenizers.target

    @property
    def facts(self) -> Facts:
        return self.tokenizers.facts


def prepare(data: Data, cache: Path, tokenizers: Tokenizers | None = None) -> Prepared:
    """Learns tokenizers on the training set and encodes the training and the validation set. Results are kept in a
    folder under ``cache``, and loaded from there if they exist.

    If ``tokenizers`` are given, they are used unchanged and nothing is learned: a run that is resumed, or continued on
    other data, keeps its own. Raises DataError if there is no training set or a file of any split is missing. If there
    are no results yet, it then reads all files and raises DataError, before anything is learned, if parallel files have
    unequal lengths. Later it raises DataError for a line whose policy is "error", and for a split without any pair
    left.
    """
    splits = locate(data, cache)
    if splits.train is None:
        raise DataError("there is nothing to train on: set data.train.source and data.train.target, or data.train.path")
    for files in present(splits).values():
        for path in files.paths:
            identity(path)  # all are there, that of the test too, which is not read here
    learned = cache / "prepared" / _fingerprint(data, splits, None)
    if tokenizers is not None and learned.exists() and Tokenizers.load(learned).fingerprints == tokenizers.fingerprints:
        return _load(learned, splits.train)
    folder = learned if tokenizers is None else cache / "prepared" / _fingerprint(data, splits, tokenizers)
    make_folder(folder, lambda scratch: _write(scratch, data, splits, tokenizers))
    return _load(folder, splits.train)


def examples(data: Data, split: str, cache: Path, told: bool = False) -> list[Example]:
    """The raw sources and references of a split ("train", "valid" or "test") for evaluation, in file order.

    No line is skipped because it is long or empty. ``data.lines`` decides about undecodable and malformed lines and
    unreadable signals. A warning names such lines, unless ``told`` is True: the user has then seen them before. The
    targets of one line are its references; empty ones are left out if another one has text. If
    ``data.group_references`` is True and there are sources, equal sources become one example, at the place of the
    first. It has all their different references, in the order of first occurrence. ``cache`` is where a missing split's
    origin keeps its files. Raises DataError if the data have no such split.
    """
    files = getattr(locate(data, cache), split)
    if files is None:
        raise DataError(
            f"there is no {split} split: name the examples with --source and --target, or with --pairs; or train with "
            f"data.{split}.path, or data.{split}.source and data.{split}.target"
        )
    account = Account(files, replace(data.lines, empty="keep"))
    tally = account.tally
    found = []
    for corpus in files.parts:
        rows = _with_sources(usable(data.rows(corpus), account), corpus, data.units)
        if data.units.signal is not None:
            rows = readable(rows, data.units.signal, account)
        name = corpus.label if files.corpora else ""
        found += [_example(list(of_line), name) for _, of_line in groupby(rows, key=lambda row: row.line)]
    # an empty reference may be meant: it is none
    if not told and any(each.policy != "keep" for each in tally.findings.values()):
        tally.kept = len(found)
        log.warning("%s", "\n".join(tally.lines(split)))
    if not data.group_references or data.units.targets_only:
        return found
    grouped: dict[tuple[str, str], dict[str, None]] = {}
    for example in found:
        grouped.setdefault((example.source, example.corpus), {}).update(dict.fromkeys(example.references))
    return [Example(source, tuple(references), corpus) for (source, corpus), references in grouped.items()]


def _example(rows: Sequence[CorpusRow], corpus: str) -> Example:
    """Makes the example of one line from its rows: the source, and the targets as references. Empty targets are left
    out, as in sacreBLEU, but if all are empty, one stays. Without targets there are no references.
    """
    targets = [row.target for row in rows if row.target is not None]
    return Example(rows[0].source or "", tuple(filter(None, targets) if any(targets) else targets[:1]), corpus)


def locate(data: Data, cache: Path) -> Splits:
    """Finds the files of each split: the files in the settings, otherwise the files of the data's origin, which are
    downloaded or made under ``cache``. A split that neither has is None.

    The origin is not used if all three splits are given.
    """
    given = Splits(data.train, data.valid, data.test)
    if data.origin is None or len(present(given)) == len(SPLITS):
        return given
    brought = data.origin.prepare(origin_folder(data.origin, cache))
    return Splits(given.train or brought.train, given.valid or brought.valid, given.test or brought.test)


def origin_folder(origin: Origin, cache: Path) -> Path:
    """The folder under ``cache`` where an origin keeps its files."""
    return cache / "origins" / f"{type(origin).__name__.lower()}-{name_from(origin)}"


# -------------------------------------------------------------------- folders


def _fingerprint(data: Data, splits: Splits, tokenizers: Tokenizers | None) -> str:
    # Frozen dataclasses show all their fields in repr, a user's own unit included.
    """A hash of all that the prepared data depend on: settings, format, files (not their content), and given
    tokenizers.
    """
    learned = (data.units, data.columns, data.lines)
    given = None if tokenizers is None else tokenizers.fingerprints
    used = [split for split in (splits.train, splits.valid) if split is not None]
    # A file alone may have both sides, or one of them.
    files = [(split.path is None, split.source is None, [identity(path) for path in split.paths]) for split in used]
    facts: tuple[object, ...] = (FORMAT, learned, given, files, splits.valid is None)
    several = [tuple((part.tag, len(part.shards)) for part in split.parts) for split in used]
    if several != [((None, 1),)] * len(used):
        facts = (*facts, several)
    if data.units.signal is not None:
        facts = (*facts, [_signals(data, split) for split in used])
    if data.filters is not None:
        facts = (*facts, data.filters)
    if named := [_stamp(str(path)) for path in _paths(data.units)]:
        facts = (*facts, named)
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:24]


def _paths(value: object) -> Iterator[Path]:
    """The files that a unit, or a part of it, names."""
    if isinstance(value, Path):
        yield value
    elif is_dataclass(value):
        for each in fields(value):
            yield from _paths(getattr(value, each.name))


def _signals(data: Data, files: Files) -> str:
    """A hash of the paths, sizes and modification times of all the files that a split's sources name, in the order of
    the rows.
    """
    digest = hashlib.sha256()
    for row in data.rows(files):
        digest.update(f"{row.source}\n{_stamp(row.source or '')}\n".encode())
    return digest.hexdigest()


def _stamp(path: str) -> str:
    """Size and modification time of a file or folder, or "missing" if it cannot be found. For a folder, the sizes and
    times of everything in it follow.
    """
    try:
        found = [os.stat(path)]
        if S_ISDIR(found[0].st_mode):
            found += [each.stat() for each in sorted(Path(path).iterdir())]
    except (OSError, ValueError):
        return "missing"
    return " ".join(f"{stat.st_size} {stat.st_mtime_ns}" for stat in found)


def _write(folder: Path, data: Data, splits: Splits, tokenizers: Tokenizers | None) -> None:
    """Fills the empty ``folder`` with tokenizers, encoded pairs and the report. Learns the tokenizers if they
    are None.
    """
    counts = {name: check(files, data.lines.max_bytes) for name, files in present(splits).items()}
    for name, files in present(Splits(splits.train, splits.valid)).items():
        if not counts[name]:
            raise DataError(f"the {name} split ({files.paths[0]}) has no lines: name a file that has text")
    assert splits.train is not None
    removed = {} if data.filters is None else data.filters.removed(partial(_usable, data, splits.train))
    if tokenizers is None:
        with _placed(data, splits.train):
            tokenizers = _learn(data, splits.train, counts["train"], removed)
    tokenizers.save(folder)
    report, fingerprints = Report({}), dict[str, list[Fingerprint]]()
    for name, files in present(Splits(splits.train, splits.valid)).items():
        with _placed(data, files):
            account = Account(files, data.lines, removed=removed if name == "train" else {})
            report.splits[name], fingerprints[name] = _encode(folder / name, data, account, tokenizers)
        if not report.splits[name].kept:
            found = left_out(report.splits[name], data.lines)
            hint = "".join(f"\n{each} is {kind}" for each in files.paths[:1] if (kind := _other_form(each)))
            raise DataError(
                f"no pair of the {name} split ({files.paths[0]}) is left after cleaning {counts[name]:,} lines: "
                f"{found}{hint}"
            )
    records = {REPORT: asdict(report), FINGERPRINTS: fingerprints_as_json(fingerprints)}
    for name, record in (records | ({REMOVED: removed} if removed else {})).items():
        (folder / name).write_text(json.dumps(record, ensure_ascii=False, indent=1), encoding="utf-8")


def _other_form(path: Stored) -> str:
    """The kind of a file whose form differs from its name, with a remedy. Empty for a file with the form that it should
    have, and for a file at an address.
    """
    if isinstance(path, Address) or path.suffix == ".parquet":
        return ""
    kind = kind_of(path)
    return "" if kind.name in (PLAIN, TABLE, JSON_LINES) else str(kind)


def _load(folder: Path, train: Files) -> Prepared:
    report = Report.from_json(read_json(folder / REPORT))
    valid = Pairs.load(folder / "valid") if "valid" in report.splits else None
    weights = tuple(corpus.share for corpus in train.parts)
    fingerprints = fingerprints_from_json(read_json(folder / FINGERPRINTS))
    removed = read_json(folder / REMOVED) if (folder / REMOVED).exists() else {}
    tokenizers, pairs = Tokenizers.load(folder), Pairs.load(folder / "train")
    return Prepared(tokenizers, pairs, valid, report, weights, fingerprints, removed)


# ------------------------------------------------------------------- encoding


def _learn(data: Data, files: Files, count: int, removed: Removed) -> Tokenizers:
    units, learned = data.units, partial(_learned, data, files, count, removed)
    if units.joint is not None:
        return Tokenizers.shared(learned("joint", units.joint), units)
    assert units.target is not None
    source = NOTHING.learn(()) if units.source is None else learned("source", units.source)
    return Tokenizers(source, learned("target", units.target))


def _learned(data: Data, files: Files, count: int, removed: Removed, side: str, unit: Unit) -> Tokenizer:
    """The tokenizer that a unit learns of a side, or of both. Raises DataError if its vocabulary is empty."""
    sides = ("source", "target") if side == "joint" else (side,)

    def texts() -> Iterator[str]:
        found = [_texts(data, files, each, count, removed) for each in sides]
        if data.units.source_lowercase:
            found[0] = map(str.lower, found[0])
        return chain.from_iterable(found)

    learned = unit.learn(texts())
    check_learned(side, unit, learned, texts)
    return learned


def _texts(data: Data, files: Files, side: str, count: int, removed: Removed) -> Iterator[str]:
    """Yields the texts of one side, from at most ``units.sample`` of the ``count`` lines, evenly spaced. Lines that the
    policies leave out give none.

    A sampled line gives the text of each of its rows (one row per target): an even stride over rows could always miss
    the second of two targets.
    """
    stride = -(-count // data.units.sample) or 1
    by_line = (rows for _, rows in groupby(data.rows(files), key=lambda row: row.line))
    sample = chain.from_iterable(islice(by_line, 0, None, stride))
    rows = usable(sample, Account(files, data.lines, removed=removed))
    return (getattr(row, side) for row in _with_targets(rows, files, data.units))


def _usable(data: Data, files: Files) -> Iterator[CorpusRow]:
    return usable(data.rows(files), Account(files, data.lines))


def _encode(folder: Path, data: Data, account: Account, tokenizers: Tokenizers) -> tuple[Tally, list[Fingerprint]]:
    """Writes the encoded pairs of the account's split into ``folder``. Returns the numbers of pairs, problems and
    unknown tokens, and the fingerprints of its files.
    """
    read, files = RowFingerprints(data.units.signal is not None), account.files
    with ExitStack() as stack:
        writer = stack.enter_context(
            PairsWriter(folder, (RowType.of(tokenizers.source), RowType.of(tokenizers.target)))
        )
        workers = None
        if data.cluster is not None or (data.processes or 1) > 1:
            workers = stack.enter_context(closing(encoders(folder.parent, data.processes or 1, data.cluster)))
        for corpus in files.parts:
            rows = _with_targets(usable(read(data.rows(corpus)), account), corpus, data.units)
            for chunk in encode(rows, tokenizers.both, account, workers):
                writer.append(chunk.sides)
                account.tally.add(chunk.tally)
            writer.end_corpus()
    return account.tally, read.found


@contextmanager
def _placed(data: Data, files: Files) -> Iterator[None]:
    """A context that turns a LineError into a DataError with file and line. The place is the first row of ``files``
    with this text; if there is none, the LineError stays.
    """
    try:
        yield
    except LineError as error:
        for row in data.rows(files):
            if error.line in (row.source, row.target):
                side: Side = "source" if error.line == row.source else "target"
                raise DataError(f"{(row.files or files).place(side, row.number)}: {error}") from error
        raise


def _with_sources(rows: Iterable[CorpusRow], files: Files, units: Units) -> Iterator[CorpusRow]:
    """Yields the rows unchanged. Raises DataError at a row without a source if ``units`` have a source, and at a row
    with a source if they have none.
    """
    for row in rows:
        if row.source is None and not units.targets_only:
            raise DataError(
                f"{files.paths[0]} has targets only: name the file or column of the sources, or for a language model "
                "give data.units.target alone"
            )
        if row.source is not None and units.targets_only:
            raise DataError(
                f"{files.paths[0]} has sources, and data.units.target is alone: set data.units.source, or for a "
                "language model leave the sources out (data.columns, or a .txt file)"
            )
        yield row


def _with_targets(rows: Iterable[CorpusRow], files: Files, units: Units) -> Iterator[CorpusRow]:
    """Yields the rows of ``_with_sources``, with its errors. Also raises DataError at a row without a target."""
    for row in _with_sources(rows, files, units):
        if row.target is None:
            raise DataError(f"{files.paths[0]} has sources only: training needs targets; name their file or column")
        yield row

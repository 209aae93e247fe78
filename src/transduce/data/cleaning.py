"""Decides which lines to learn from, and reports the lines that have problems."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any

from transduce.core.config import Table
from transduce.data.base import Removed
from transduce.data.corpora import DataError, Files, Side
from transduce.data.rows import CorpusRow
from transduce.data.settings import Lines
from transduce.data.tokenizers.base import Tokenizer, cut
from transduce.data.unknown import Unknown

SIDES: tuple[Side, ...] = ("source", "target")
PLACES = 5  # how many places of each kind are remembered


@dataclass
class Finding:
    """The lines of one split with one kind of problem: their number, the policy that was applied to them ("skip", ...),
    and the places of the first few.

    A place is file:line, for some kinds of problems followed by a description.
    """

    count: int
    policy: str
    places: list[str]


@dataclass
class Tally:
    """The result of a preparation for one split: the number of pairs ``kept``, and the findings by kind (empty,
    overlong, unequal, undecodable, malformed, unreadable, with further columns). A kind without any line is not among
    them. ``unknown`` are the unknown tokens of the pairs kept, by side.
    """

    kept: int = 0
    findings: dict[str, Finding] = field(default_factory=dict)
    unknown: dict[str, Unknown] = field(default_factory=lambda: {side: Unknown() for side in SIDES})

    def note(self, kind: str, policy: str, place: str) -> None:
        """Counts one line with a problem. The place of one of the first ``PLACES`` lines of its kind is kept."""
        finding = self.findings.setdefault(kind, Finding(0, policy, []))
        finding.count += 1
        if len(finding.places) < PLACES:
            finding.places.append(place)

    def add(self, other: Tally) -> None:
        """Adds the tally of later lines to this one, in place."""
        self.kept += other.kept
        for kind, found in other.findings.items():
            own = self.findings.setdefault(kind, Finding(0, found.policy, []))
            own.count += found.count
            own.places += found.places[: PLACES - len(own.places)]
        for side, unknown in other.unknown.items():
            self.unknown[side].add(unknown)

    def lines(self, split: str) -> list[str]:
        """The tally as text for people: a line for the split, one for each kind of finding, and one for each side that
        has unknown tokens. ``split`` is the split's name.
        """
        text = [f"{split}: {self.kept:,} pairs"]
        for kind, finding in self.findings.items():
            more = ", …" if finding.count > len(finding.places) else ""
            text.append(f"  {finding.count:,} {kind} ({finding.policy}): {', '.join(finding.places)}{more}")
        return [*text, *(f"  {side}: {unknown}" for side, unknown in self.unknown.items() if unknown)]


def left_out(tally: Tally, lines: Lines) -> str:
    """The lines that were left out, in one line for people: how many of each kind, by which setting, and the first
    places.
    """
    told = (
        f"{finding.count:,} {kind} ({lines.setting(kind)}): {', '.join(finding.places[:2])}"
        + (", …" if finding.count > 2 else "")
        for kind, finding in tally.findings.items()
    )
    return "; ".join(told)


@dataclass(frozen=True)
class Report:
    """The result of a preparation for the training and the validation set: the tally of each, by the split's name."""

    splits: dict[str, Tally]

    def lines(self, explained: Collection[Side] = ()) -> list[str]:
        """The report as lines of text for people. The last lines warn of unknown tokens that training never has, except
        for the ``explained`` sides, whose unknown tokens have another cause.
        """
        lines = [line for split, tally in self.splits.items() for line in tally.lines(split)]
        return [*lines, *untrained_unknowns(self.splits, explained)]

    @classmethod
    def from_json(cls, record: Table) -> Report:
        """Makes the report from the table that ``dataclasses.asdict`` of a report gives, also after a round trip
        through JSON.
        """
        return cls(
            {
                split: Tally(
                    tally["kept"],
                    {kind: Finding(**found) for kind, found in tally["findings"].items()},
                    {
                        side: Unknown(**{**found, "first": tuple(found["first"])})
                        for side, found in tally["unknown"].items()
                    },
                )
                for split, tally in record["splits"].items()
            }
        )


def untrained_unknowns(tallies: Mapping[str, Tally], explained: Collection[Side] = ()) -> Iterator[str]:
    """Yields a warning for each side that has unknown tokens in another split, and none in the training set.
    ``tallies`` are by the name of the split. Sides that are ``explained`` have none.

    A model never learns what ``<unk>`` means if the training set has none.
    """
    for side in (side for side in SIDES if side not in explained):
        others = {split: tally.unknown[side] for split, tally in tallies.items() if split != "train"}
        others = {split: found for split, found in others.items() if found}
        if others and not tallies["train"].unknown[side]:
            found = " and ".join(f"{unknown.count:,} in {split}" for split, unknown in others.items())
            yield (
                f"warning: {side} has unknown tokens ({found}) and none in train, so <unk> is not trained: raise "
                f"minimum_count of data.units.{side} (of bpe: set alphabet), or choose units without unknown tokens"
            )


@dataclass(frozen=True)
class Account:
    """Collects the problems of one split's lines while they are read. It has the split's files, the policy for each
    kind of problem, the rows that a filter leaves out, and the tally of problems found.
    """

    files: Files
    lines: Lines
    tally: Tally = field(default_factory=Tally)
    removed: Removed = field(default_factory=dict)

    def place(self, side: Side, row: CorpusRow) -> str:
        """The place "file:number" of a row, for messages."""
        return (row.files or self.files).place(side, row.number)

    def stays(self, kind: str, place: str, detail: str, why: bool = False) -> bool:
        """Decides whether a line with a problem is kept, and notes the problem in the tally. Returns False if the
        policy for this kind is "skip", otherwise True.

        ``kind`` is the name of the policy in ``Lines``, ``place`` is file:line, and ``detail`` describes the problem.
        ``why`` adds the detail to the report, for kinds that do not explain themselves. Raises DataError if the policy
        is "error".
        """
        policy = getattr(self.lines, kind)
        if policy == "error":
            mend = "convert the file with iconv, mend the line" if kind == "undecodable" else "mend the line"
            raise DataError(
                f"{place}: {detail}; {mend} or take it out (of a run's data, data.lines.{kind} = 'skip' leaves "
                "such lines out)"
            )
        self.tally.note(kind, policy, f"{place} ({detail})" if why else place)
        return bool(policy != "skip")


def usable(rows: Iterable[CorpusRow], account: Account) -> Iterator[CorpusRow]:
    """Yields the rows without a problem, and those that the policy of their problem keeps.

    Problems here are undecodable and malformed lines, sides that are empty or white space (a side that is None is not
    empty), and what the account's filter has removed. Each is noted in the account. Raises DataError if its policy is
    "error".
    """
    for row in rows:
        problem = row.problem
        if problem is not None:
            why = problem.kind == "malformed" or problem.kind not in account.tally.findings  # the encoding, once
            if not account.stays(problem.kind, problem.place, problem.detail, why):
                continue
        empty: list[Side] = [side for side in SIDES if (text := getattr(row, side)) is not None and not text.strip()]
        if empty:
            place = account.place(empty[0], row)
            if not account.stays("empty", place, f"the {empty[0]} is empty"):
                continue
        if row.further:
            detail = "not read; data.columns chooses, or the suffix .dict makes each a target"
            account.tally.note("with further columns", detail, account.place("source", row))
        if account.removed and (found := account.removed.get(row.key)) is not None:
            place = account.place("source", row)
            account.tally.note(found[0], "data.filters", f"{place} ({found[1]})" if found[1] else place)
            continue
        yield row


def fitting(
    rows: Sequence[CorpusRow],
    pairs: Iterable[tuple[Any, Any]],
    tokenizers: tuple[Tokenizer, Tokenizer],
    account: Account,
) -> Iterator[tuple[Any, Any]]:
    """Applies the policies for overlong and unequal lines to encoded pairs (source, target). Yields the pairs that
    stay, and counts them and their unknown tokens in ``account``.

    ``rows`` are the rows of the same pairs, for messages. The policy "truncate" cuts both sides to their limits. The
    numbers of tokens on both sides are compared after that, and only if the policy ``unequal`` is not "keep". Raises
    DataError if a policy is "error".
    """
    lines, place = account.lines, account.place
    limits = lines.max_source_length, lines.max_target_length
    for row, pair in zip(rows, pairs, strict=True):
        if (long := _overlong(pair, limits, tokenizers)) is not None:
            if not account.stays("overlong", place(long[0], row), long[1]):
                continue
            pair = cut(pair[0], limits[0], tokenizers[0]), cut(pair[1], limits[1], tokenizers[1])
        if lines.token_for_token:
            tokens, labels = (side.length(ids) for side, ids in zip(tokenizers, pair, strict=True))
            if tokens != labels:
                detail = f"{labels} labels in the target for {tokens} tokens in the source"
                if not account.stays("unequal", place("source", row), detail):
                    continue
        account.tally.kept += 1
        account.tally.unknown["source"].read(tokenizers[0], pair[0], row.source or "")
        account.tally.unknown["target"].read(tokenizers[1], pair[1], row.target or "", row.source or "")
        yield pair


def _overlong(
    pair: tuple[Sized, Sized], limits: tuple[int, int], tokenizers: tuple[Tokenizer, Tokenizer]
) -> tuple[Side, str] | None:
    """The first side, source before target, that is longer than its limit, with a description for the message; None if
    both sides fit.
    """
    for side, ids, limit, tokenizer in zip(SIDES, pair, limits, tokenizers, strict=True):
        if len(ids) > limit:
            unit = "steps" if tokenizer.signal else "tokens"
            return side, f"the {side} has {len(ids)} {unit}, more than max_{side}_length = {limit}"
    return None

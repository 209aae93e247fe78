"""Which lines are learned from, and the account of those that are not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from transduce.data.corpora import DataError, Files, Row, Side
from transduce.data.settings import Lines
from transduce.data.tokenizers import Tokenizer, cut

SIDES: tuple[Side, ...] = ("source", "target")
PLACES = 5  # how many places of each kind are remembered


@dataclass
class Finding:
    """Lines of one kind: how many, what was done with them, and the first few places (file:line)."""

    count: int
    policy: str
    places: list[str]


@dataclass
class Tally:
    """The account of one split: pairs kept, and findings by kind (empty, overlong, unequal, undecodable, malformed,
    unreadable)."""

    kept: int = 0
    findings: dict[str, Finding] = field(default_factory=dict)

    def note(self, kind: str, policy: str, place: str) -> None:
        finding = self.findings.setdefault(kind, Finding(0, policy, []))
        finding.count += 1
        if len(finding.places) < PLACES:
            finding.places.append(place)

    def lines(self, split: str) -> list[str]:
        """For people: a line for the split, and one for each kind of finding below it."""
        text = [f"{split}: {self.kept:,} pairs"]
        for kind, finding in self.findings.items():
            more = ", …" if finding.count > len(finding.places) else ""
            text.append(f"  {finding.count:,} {kind} ({finding.policy}): {', '.join(finding.places)}{more}")
        return text


@dataclass(frozen=True)
class Report:
    """The tallies by split."""

    splits: dict[str, Tally]

    def lines(self) -> list[str]:
        """For people, as plain text."""
        return [line for split, tally in self.splits.items() for line in tally.lines(split)]

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Report:
        """The report of ``dataclasses.asdict``, after its way through JSON."""
        return cls(
            {
                split: Tally(tally["kept"], {kind: Finding(**found) for kind, found in tally["findings"].items()})
                for split, tally in record["splits"].items()
            }
        )


def usable(rows: Iterable[Row], files: Files, lines: Lines, tally: Tally) -> Iterator[Row]:
    """The rows whose text can be read and is there, by policy; the others are noted, or raise DataError."""
    for row in rows:
        if row.problem is not None:
            policy = lines.malformed if row.problem.kind == "malformed" else lines.undecodable
            found(tally, row.problem.kind, policy, row.problem.place, row.problem.detail)
            if policy == "skip":
                continue
        empty: list[Side] = [side for side in SIDES if (text := getattr(row, side)) is not None and not text.strip()]
        if empty:
            side = empty[0]
            found(tally, "empty", lines.empty, files.place(side, row.number), f"the {side} is empty")
            if lines.empty == "skip":
                continue
        yield row


def fitting(
    rows: Sequence[Row],
    pairs: Iterable[tuple[Any, Any]],
    tokenizers: tuple[Tokenizer, Tokenizer],
    files: Files,
    lines: Lines,
    tally: Tally,
) -> Iterator[tuple[Any, Any]]:
    """The pairs of rows no longer than ``lines`` allows, and of equal length where it asks for that, by policy, counted
    as kept."""
    for row, (source, target) in zip(rows, pairs, strict=True):
        long_source, long_target = len(source) > lines.max_source_length, len(target) > lines.max_target_length
        if long_source or long_target:
            side: Side = "source" if long_source else "target"
            length, limit = (
                (len(source), lines.max_source_length) if long_source else (len(target), lines.max_target_length)
            )
            signal = tokenizers[SIDES.index(side)].signal
            detail = f"the {side} has {length} {'steps' if signal else 'tokens'}, more than max_{side}_length = {limit}"
            found(tally, "overlong", lines.overlong, files.place(side, row.number), detail)
            if lines.overlong == "skip":
                continue
            source = cut(source, lines.max_source_length, tokenizers[0])
            target = cut(target, lines.max_target_length, tokenizers[1])
        if lines.unequal != "keep":
            tokens, labels = (side.length(ids) for side, ids in zip(tokenizers, (source, target), strict=True))
            if tokens != labels:
                detail = f"{labels} labels in the target for {tokens} tokens in the source"
                found(tally, "unequal", lines.unequal, files.place("source", row.number), detail)
                continue
        tally.kept += 1
        yield source, target


def found(tally: Tally, kind: str, policy: str, place: str, detail: str, why: bool = False) -> None:
    """Notes what is wrong with a line, and ``why`` where the kind does not say it, or raises DataError where the policy
    is "error"."""
    if policy == "error":
        raise DataError(
            f"{place}: {detail}; mend the line or take it out (of a run's data, data.lines.{kind} = 'skip' leaves such "
            "lines out)"
        )
    tally.note(kind, policy, f"{place} ({detail})" if why else place)

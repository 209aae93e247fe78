"""Splits that do not leak: all pairs of a source stay together, and what the given splits share is told."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from transduce.core.errors import UserError
from transduce.core.files import write_lines
from transduce.wings.fitting.given import Given, Pair

SHARE = 0.1  # of the sources is held out for validation
MOST = 2000  # pairs for validation
FOLDS_BELOW = 500  # with fewer pairs, every pair is validated on once
FOLDS = 4
LEAK = 0.005  # a larger share of sources that two splits share is told


@dataclass(frozen=True)
class View:
    """A division of the pairs into ``train`` and ``valid``. Its ``name`` is a folder's name."""

    name: str
    train: Sequence[Pair]
    valid: Sequence[Pair]

    def write(self, folder: Path) -> dict[str, str]:
        """Writes the pairs as JSON lines into ``folder``. Returns the settings of a run that reads them."""
        settings = {}
        for split, pairs in (("train", self.train), ("valid", self.valid)):
            path = folder / f"{self.name}.{split}.jsonl"
            if pairs:
                write_lines(path, (json.dumps(_record(pair), ensure_ascii=False) for pair in pairs))
                settings[f"data.{split}.path"] = str(path.resolve())
        return settings


def views(train: Sequence[Pair], valid: Sequence[Pair] | None) -> list[View]:
    """The views to judge candidates by: one with the user's validation pairs, or with a tenth of the sources held out;
    or ``FOLDS`` of them for fewer than ``FOLDS_BELOW`` pairs. Raises UserError if there are too few sources.
    """
    if valid:
        return [View("all", train, valid)]
    groups = by_source(train)
    if len(groups) < 2 * FOLDS:
        raise UserError(f"{len(groups)} different sources: at least {2 * FOLDS} are needed to judge a model")
    if len(train) < FOLDS_BELOW:
        parts = [[pair for group in groups[fold::FOLDS] for pair in group] for fold in range(FOLDS)]
        return [View(f"fold{fold + 1}", _others(parts, fold), part) for fold, part in enumerate(parts)]
    held, count = list[Pair](), min(MOST, round(SHARE * len(train)))
    while groups and len(held) < count:
        held += groups.pop()
    return [View("all", [pair for group in groups for pair in group], held)]


def by_source(pairs: Iterable[Pair]) -> list[list[Pair]]:
    """The pairs in groups of one source, in an order that depends on the source alone: by a hash of it. Texts without
    a source are grouped by themselves.
    """
    groups: dict[str, list[Pair]] = {}
    for pair in pairs:
        groups.setdefault(pair[0] or pair[1], []).append(pair)
    return [groups[key] for key in sorted(groups, key=_hash)]


def held_out(pairs: Sequence[Pair], share: float) -> tuple[list[Pair], list[Pair]]:
    """Divides the pairs into the rest and those that are held out: all pairs of a ``share`` of the sources. Which ones
    depends on the sources alone. Both keep the order of the pairs.
    """
    groups = by_source(pairs)
    chosen = {group[0][0] or group[0][1] for group in groups[: round(share * len(groups))]}
    return without_sources(pairs, chosen), [pair for pair in pairs if (pair[0] or pair[1]) in chosen]


def without_sources(pairs: Iterable[Pair], sources: Set[str]) -> list[Pair]:
    """The pairs whose source is none of the ``sources``."""
    return [pair for pair in pairs if (pair[0] or pair[1]) not in sources]


def leaks(splits: Mapping[str, Sequence[Pair]]) -> list[str]:
    """Lines about sources that two splits share, and about letters of valid and test that training never has."""
    told = []
    known = {name: {source or target for source, target in pairs} for name, pairs in splits.items()}
    for name, earlier in (("valid", "train"), ("test", "train"), ("test", "valid")):
        if not known.get(name) or not known.get(earlier):
            continue
        shared = [pair for pair in splits[name] if (pair[0] or pair[1]) in known[earlier]]
        if len(shared) > LEAK * len(splits[name]):
            same = len(set(shared) & set(splits[earlier]))
            told.append(
                f"warning: {len(shared):,} of {len(splits[name]):,} sources of {name} are also in {earlier} "
                f"({same:,} with the same target): scores on {name} say too little about new sources. "
                f"--drop-shared leaves these pairs out of {earlier}"
            )
    letters = {c for source, _ in splits["train"] for c in source}
    for name in ("valid", "test"):
        sources = [source for source, _ in splits.get(name, ())]
        unseen = {c for source in sources for c in source} - letters
        if unseen and letters:
            struck = sum(not unseen.isdisjoint(source) for source in sources)
            shown = " ".join(sorted(unseen)[:10])
            told.append(
                f"{struck:,} of {len(sources):,} sources of {name} have characters that training never has: {shown}"
            )
    return told


def new_sources(pairs: Sequence[Pair], train: Sequence[Pair]) -> list[int]:
    """The numbers of the pairs whose source training does not have."""
    known = {source or target for source, target in train}
    return [number for number, (source, target) in enumerate(pairs) if (source or target) not in known]


def record(given: Given, path: Path) -> str:
    """Writes the pairs of a split as JSON lines. Returns the absolute path."""
    write_lines(path, (json.dumps(_record(pair), ensure_ascii=False) for pair in given.pairs))
    return str(path.resolve())


def _record(pair: Pair) -> dict[str, str]:
    source, target = pair
    return {"source": source, "target": target} if source else {"target": target}


def _others(parts: Sequence[Sequence[Pair]], fold: int) -> list[Pair]:
    return [pair for number, part in enumerate(parts) if number != fold for pair in part]


def _hash(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()

"""Fits the run's searches to the targets before training: finds the targets that they could never write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from transduce.answers.search_settings import search_of_run
from transduce.core import config
from transduce.core.protocols import AnySearch
from transduce.core.registry import name_of
from transduce.data.pairs import Pairs
from transduce.data.preparation import Prepared
from transduce.runs.run import language_model
from transduce.search.limits import Limited, Refusing, refused
from transduce.training.settings import Settings

SAMPLE = 500  # pairs of a split that are forced through filters
AT_ONCE = 50  # of these pairs in a batch
SEARCHES = ("search", "training.validation.search")  # their keys
LARGE = 0.1  # share of a split's targets; a limit that forbids this share or more does not fit the data


@dataclass(frozen=True)
class Unwritable:
    """Targets that a search can never write because of the option ``key``, whose value is ``value`` in words.

    ``counts`` has, for each split with such targets, their number and the number of targets that were looked at.
    ``why`` and ``remedy`` are parts of the line for people. ``fitting`` is a value of the option that forbids none of
    them; None if there is no such number. ``must_fit`` is False for an option that chooses among good outputs, such as
    the number of parts that a summary has.
    """

    key: str
    value: str
    counts: Mapping[str, tuple[int, int]]
    why: str
    remedy: str
    fitting: int | None = None
    must_fit: bool = True

    @property
    def large(self) -> bool:
        """True if the option forbids a share of ``LARGE`` or more of a split's targets."""
        return any(count >= LARGE * total for count, total in self.counts.values())

    @property
    def finding(self) -> str:
        """A text for people about the targets that the search can never write."""
        parts = [
            f"{count:,} of {total:,} {split} targets ({_percent(count / total)})"
            for split, (count, total) in self.counts.items()
        ]
        return f"{self.key}{self.value}: the search can never write {' and '.join(parts)}{self.why}"


def fit_searches(
    table: config.Table, settings: Settings, prepared: Prepared, device: torch.device, fixed: Collection[str] = ()
) -> tuple[config.Table, tuple[str, ...]]:
    """The settings ``table`` whose searches can write the targets of the training and the validation set, and a line
    for people for each option that forbids targets. ``settings`` are the settings of ``table``.

    All lengths are compared with ``max_length``. Filters are asked about at most ``SAMPLE`` pairs of each split, evenly
    spaced. If a ``max_length`` forbids a share of ``LARGE`` or more, 1.25 times the length of the longest target
    replaces it. If a filter does so, ConfigError is raised. Options in ``fixed`` are the user's choice: the line warns
    of them, and they stay. A language model has no sources to search for, so nothing changes.
    """
    if not prepared.tokenizers.conditional:
        return table, ()
    own, in_validation = SEARCHES
    searches: dict[str, AnySearch] = {own: settings.search}
    if settings.training.validation.metrics and settings.training.validation.search is not None:
        searches[in_validation] = settings.training.validation.search
    splits = {"training": prepared.train} | ({} if prepared.valid is None else {"validation": prepared.valid})
    lines = list[str]()
    for key, search in searches.items():
        for each in (*_too_long(key, search, splits), *_forbidden(key, search, splits, prepared, device)):
            if not each.must_fit or not each.large or any(f"{each.key}.".startswith(f"{name}.") for name in fixed):
                lines.append(f"warning: {each.finding}; {each.remedy}")
            elif each.fitting is None:
                raise config.ConfigError("", f"{each.finding}; {each.remedy}")
            else:
                table = config.assign(table, each.key, each.fitting)
                lines.append(f"{each.finding}. Therefore it is {each.fitting} in this run; --set {each.key}=N fixes it")
    return table, tuple(lines)


def _too_long(key: str, search: AnySearch, splits: Mapping[str, Pairs]) -> Iterator[Unwritable]:
    if not isinstance(search, Limited):
        return
    limit = search.max_length
    counts = {split: (int((pairs.target_lengths > limit).sum()), len(pairs)) for split, pairs in splits.items()}
    if found := {split: count for split, count in counts.items() if count[0]}:
        longest = max(int(splits[split].target_lengths.max()) for split in found)
        inner = key if "max_length" in vars(search) else f"{key}.search"  # of a shortlist
        yield Unwritable(
            f"{inner}.max_length",
            f" = {limit}",
            found,
            f", which are longer: up to {longest:,} tokens, the end counted",
            f"set {inner}.max_length={longest}, or leave these pairs out by data.lines.max_target_length={limit}",
            longest * 5 // 4,  # an output may be longer than the targets that are known
        )


def _forbidden(
    key: str, search: AnySearch, splits: Mapping[str, Pairs], prepared: Prepared, device: torch.device
) -> Iterator[Unwritable]:
    """The targets of samples that filters forbid, or other options than ``max_length``."""
    if not isinstance(search, Refusing) and not (isinstance(search, Limited) and search.filters):
        return
    bound = search_of_run(search, prepared.tokenizers, partial(language_model, run=None, device=device))
    counts = dict[str, dict[str, tuple[int, int]]]()
    for split, pairs in splits.items():
        rows = np.unique(np.linspace(0, len(pairs) - 1, min(SAMPLE, len(pairs)), dtype=np.int64))
        options = Counter[str]()
        for some in np.split(rows, range(AT_ONCE, len(rows), AT_ONCE)):
            batch = pairs.batch(some).to(device)
            options.update(refused(bound, batch.source, batch.target, len(prepared.target_tokenizer)))
        for option, count in options.items():
            if option not in ("", "max_length"):
                counts.setdefault(option, {})[split] = count, len(rows)
    why = f", by a sample of {SAMPLE} pairs" if any(len(pairs) > SAMPLE for pairs in splits.values()) else ""
    for option, found in counts.items():
        name, _, place = option.partition(".")
        value = getattr(search, name)
        if place:
            kind = name_of("Filter", type(value[int(place)])) or type(value[int(place)]).__name__
            yield Unwritable(f"{key}.filters", f" ({kind})", found, why, "leave this filter out of them")
        else:
            yield Unwritable(f"{key}.{name}", f" = {value}", found, why, "choose another one", must_fit=False)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if share >= 0.001 else "less than 0.1 %"

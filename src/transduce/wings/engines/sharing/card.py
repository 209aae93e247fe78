"""The model card of a packed run: what the model does, how to use it, its data and its scores, in Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.core.config import TableView
from transduce.core.config.user_data import SPLITS, borrowed
from transduce.core.finite import readable
from transduce.data.fingerprints import Fingerprint, Fingerprints
from transduce.wings.engines.sharing import kinds

if TYPE_CHECKING:  # a card needs no torch
    from transduce.wings.records.scores import Score


@dataclass(frozen=True)
class Card:
    """The facts of a card. ``name`` is the run's name, ``settings`` its tables, ``version`` transduce's.

    ``parameters`` is the number of the model's numbers. ``scores`` are of the packed model. ``validation`` has the
    scores that training measured for this checkpoint, and ``effort`` its updates, minutes and target tokens; both may
    be empty. ``address`` is where the run can be loaded from. ``labels`` are those of a classifier or tagger.
    ``fingerprints`` are those of the data that training read. ``examples`` are inputs to try.
    """

    name: str
    settings: TableView
    version: str
    parameters: int
    scores: Sequence[Score] = ()
    validation: Mapping[str, float] = field(default_factory=dict)
    effort: Mapping[str, float] = field(default_factory=dict)
    address: str = "PATH"
    labels: Sequence[str] = ()
    fingerprints: Fingerprints = field(default_factory=dict)
    examples: Sequence[str] = ()

    def __str__(self) -> str:
        return "\n".join(
            [
                *self._front_matter(),
                *self._use(),
                *self._examples(),
                *self._model(),
                *self._data(),
                *self._scores(),
                *self._limits(),
            ]
        )

    def _front_matter(self) -> Iterator[str]:
        """YAML that the Hugging Face hub reads. JSON strings are YAML strings."""
        yield from ("---", "library_name: transduce", "tags:", "- transduce", f"- {json.dumps(self._type)}")
        if self.scores:
            yield "metrics:"
            yield from (f"- {json.dumps(each.metric)}" for each in self.scores)
        yield from ("---", "")

    def _use(self) -> Iterator[str]:
        does = _plain(kinds.summary(self.settings, self.labels))
        yield from (f"# {_plain(self.name)}", "", f"This model of transduce {self.version} {does}.")
        if self.labels:
            more = ", …" if len(self.labels) > kinds.SHOWN else ""
            yield from ("", f"Its labels: {', '.join(map(_plain, self.labels[: kinds.SHOWN]))}{more}.")
        lines, commands = kinds.usage(self.settings, self.address)
        yield from ("", "## Use it", "```python", "import transduce", "")
        yield from (f"model = transduce.load({json.dumps(self.address)})", *lines, "```", "```")
        yield from (*commands, f"transduce pull {self.address} --out runs/mine", "```", "")

    def _examples(self) -> Iterator[str]:
        if self.examples:
            yield from (EXAMPLES, *(f"- {_plain(each)}" for each in self.examples), "")

    def _model(self) -> Iterator[str]:
        model, search = self.settings["model"], self.settings.get("search", {})
        yield from ("## Model", "| part | value |", "|---|---|")
        chains = kinds.chains(model)
        rows = {"type": _shape(model)}
        for place, chain in enumerate(chains, 1):
            name = f"member {place} " if len(chain) > 1 else ""
            if name:
                rows[name] = ": ".join(_shape(each) for each in chain[1:])
            rows |= {f"{name}{part}": _shape(chain[-1].get(part)) for part in ("encoder", "decoder")}
        rows |= {"parameters": f"{self.parameters:,}", "search": _shape(search), "training": _effort(self.effort)}
        yield from (f"| {key.strip()} | {_plain(value)} |" for key, value in rows.items() if value)
        yield ""

    def _data(self) -> Iterator[str]:
        data = self.settings["data"]
        yield from ("## Data", "| split | data | lines | fingerprint |", "|---|---|---|---|")
        origin = _shape(data.get("origin"))
        measured = {each.split: [each.data] for each in self.scores if each.data is not None}
        for split in SPLITS:
            files = data.get(split)
            named = ", ".join(str(each) for each in _leaves(files)) if files else origin
            if borrowed(data, [split]):
                named += ": other data than the training data"
            found = self.fingerprints.get(split, ()) or measured.get(split, ())
            lines = f"{sum(each.lines for each in found):,}" if found else ""
            yield f"| {split} | {_plain(named) or 'none was given'} | {lines} | {_hashes(found)} |"
        yield ""
        if self.fingerprints or measured:
            yield from (
                "A fingerprint is the beginning of the SHA-256 of the rows of each file that training read, or of the "
                "examples of a split that was only measured.",
                "",
            )

    def _scores(self) -> Iterator[str]:
        yield from ("## Scores", "")
        if self.scores:
            yield from (
                "| metric | split | examples | score | 95 % interval | better | signature |",
                "|---|---|---|---|---|---|---|",
            )
            for each in self.scores:
                interval = f"{each.low:.2f} to {each.high:.2f}"
                cells = (each.metric, each.split, f"{each.examples:,}", f"{each.value:.2f}", interval)
                better = "higher" if each.higher_is_better else "lower"
                yield f"| {' | '.join(map(_plain, (*cells, better, each.signature)))} |"
            if any(borrowed(self.settings["data"], [each.split]) for each in self.scores):
                yield "**These are no scores of the task that was learned**: the test data are other data."
            yield ""
        if self.validation:
            measured = ", ".join(f"{name} {readable(value, 4)}" for name, value in self.validation.items())
            yield from (f"During training, this checkpoint had on the validation data: {_plain(measured)}.", "")
        if not self.scores and not self.validation:
            yield from ("None were measured.", "")

    @property
    def _type(self) -> str:
        return str(self.settings["model"].get("type", "model"))

    def _limits(self) -> Iterator[str]:
        lines = sum(each.lines for each in self.fingerprints.get("train", ()))
        yield from ("## Limits", *(f"- {each}" for each in kinds.limits(self.settings, self.labels, lines)))
        yield from (f"- {each}" for each in ALWAYS)
        yield from ("", "transduce wrote this card from the run.", "")


EXAMPLES = "## Examples"
ALWAYS = (
    "The scores hold for the data of this card. On other data the model may do worse.",
    "It can repeat errors and prejudices of its training data.",
)


def parameters_of(weights: Path) -> int:
    """The number of all numbers in a safetensors file, from its header."""
    with weights.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    total = 0
    for name, tensor in header.items():
        if name != "__metadata__":
            count = 1
            for size in tensor["shape"]:
                count *= size
            total += count
    return total


def _hashes(found: Sequence[Fingerprint]) -> str:
    """The fingerprints of a split's files, the first four of many."""
    shown = ", ".join(f"`{each.sha256}`" for each in found[:4])
    return f"{shown} and {len(found) - 4} more" if len(found) > 4 else shown


def _effort(effort: Mapping[str, float]) -> str:
    """What training took, as people read it."""
    told = {name: f"{value:,.0f} {name}" for name, value in effort.items()}
    if minutes := effort.get("minutes"):
        told["minutes"] = f"{minutes:,.1f} minutes" if minutes >= 1 else f"{max(1, minutes * 60):.0f} s"
    return ", ".join(told.values())


def _shape(table: object) -> str:
    """A table in a few words: its type, and its values that are numbers or words."""
    if not isinstance(table, Mapping):
        return str(table or "")
    values = {key: value for key, value in table.items() if isinstance(value, (int, float, str)) and key != "type"}
    parts = [str(table.get("type", "")), *(f"{key} {_value(value)}" for key, value in values.items())]
    return ", ".join(filter(None, parts))


def _value(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _leaves(value: object) -> Iterator[object]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _leaves(each)
    else:
        yield value


def _plain(text: object) -> str:
    """Text for one cell of a table: one line, and nothing that Markdown or HTML would read as markup."""
    line = " ".join(str(text).split())
    return "".join(f"&#{ord(sign)};" if sign in "<>&|`[]" else sign for sign in line)

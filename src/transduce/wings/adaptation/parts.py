"""Starts the parts of a new model from different runs: for example, encoder and decoder from one run each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from transduce.core import config
from transduce.core.config.errors import Table
from transduce.core.errors import UserError
from transduce.core.registry import alternatives
from transduce.data.preparation import Prepared, Tokenizers, prepare
from transduce.data.settings import Data
from transduce.data.tokenizers.base import Tokenizer
from transduce.models.weights import summarise
from transduce.runs.ancestry import Part
from transduce.runs.loading import load
from transduce.training.inheritance import Inheritance, axes_of, copy_weights, named_parameters, vocabulary_axes
from transduce.training.kept_vocabulary import prepare_writable

SIDES = ("source", "target")


@dataclass
class Transfer:
    """The report of the parameters that the parts of a new model took from other runs. It has a report for each part,
    and the names of all parameters of the new model. ``outside`` has the names of the parameters that no part covers.
    """

    parts: list[Inheritance]
    outside: list[str]
    every: list[str]

    def lines(self) -> list[str]:
        """The report as lines for people."""
        found = [line for part in self.parts for line in part.lines()]
        if self.outside:
            found.append(f"starts from no run: {', '.join(summarise(self.outside, self.every))}")
        return found

    def as_json(self) -> Table:
        """The report as values for JSON, for the file init.json."""
        return {"parts": [part.as_json() for part in self.parts], "fresh": self.outside}


class Parts:
    """The runs that the parts of a new model start from, loaded from the settings ``init.parts`` into the processor's
    memory. Raises FileNotFoundError if one of the runs, or its checkpoint, is missing.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = [(part, load(part.run, part.checkpoint, "cpu")) for part in parts]

    def units_for(self, data: Data, own: config.Table) -> config.Table | None:
        """The table ``data.units`` of the new run. It is the table ``own``, but if the vocabulary of a side is kept or
        extended, the unit of this side comes from the other run. None if each side learns its own vocabulary.

        Raises UserError if a part of the encoder keeps a vocabulary, and the new run has no source.
        """
        self._tokenizers()  # raises UserError first if two runs do not agree
        taken = {}
        for part, transducer in self.parts:
            if part.vocabulary == "own":
                continue
            side, units = _side(part.into), transducer.settings["data"]["units"]
            if side == "source" and data.units.targets_only:
                raise UserError(
                    f"init.parts: {part.into} keeps the vocabulary of {part.run}, and this run has no source: set its "
                    'vocabulary = "own"'
                )
            found = units.get("joint") or units.get(_side(part.taken))
            if found is None:
                raise UserError(f"init.parts: {part.run} has no unit of the {_side(part.taken)} for {part.into}")
            taken["joint" if data.units.joint is not None else side] = found
        return {**own, **taken} if taken else None

    def prepare(self, data: Data, cache: Path) -> Prepared:
        """The data of the new run, encoded with the vocabularies that the parts choose. The vocabulary of a side is
        learned from the new data if the side has no part, or if its part says "own".
        """
        kept = self._tokenizers()
        if data.units.joint is not None and kept:  # both sides share one vocabulary
            if len({tokenizer.fingerprint for tokenizer, _ in kept.values()}) > 1:
                raise UserError(
                    "init.parts: the runs have different vocabularies, and data.units.joint needs one for both sides: "
                    "train them with one vocabulary, or set data.units.source and data.units.target"
                )
            (shared, _), *_ = kept.values()
            kept = dict.fromkeys(SIDES, (shared, any(extended for _, extended in kept.values())))
        if len(kept) == len(SIDES) and not any(extended for _, extended in kept.values()):
            prepared, _ = prepare_writable(data, cache, Tokenizers(kept["source"][0], kept["target"][0]), self._run())
            return prepared
        learned = prepare(data, cache)
        if not kept:
            return learned
        both = []
        for side, own in zip(SIDES, learned.tokenizers.both, strict=True):
            tokenizer, extended = kept.get(side, (own, False))
            both.append(tokenizer.extended(own) if extended else tokenizer)
        prepared, _ = prepare_writable(data, cache, Tokenizers(*both), self._run())
        return prepared

    def same_counts(self, table: config.Table, prepared: Prepared) -> None:
        """Parts take no counts: they are counted on the new pairs."""

    def _run(self) -> Path:
        """The run that the target's vocabulary comes from, or the first run."""
        given = [part.run for part, _ in self.parts if part.vocabulary != "own" and _side(part.into) == "target"]
        return [*given, self.parts[0][0].run][0]

    def _tokenizers(self) -> dict[str, tuple[Tokenizer, bool]]:
        """The tokenizer of each side whose vocabulary is not learned, and True if the new data's tokens are added.

        Raises UserError if two runs have different vocabularies for one side.
        """
        kept: dict[str, tuple[Tokenizer, bool]] = {}
        runs: dict[str, Path] = {}
        for part, transducer in self.parts:
            if part.vocabulary == "own":
                continue
            side, both = _side(part.into), transducer.tokenizers
            tokenizer = both.source if _side(part.taken) == "source" else both.target
            before, extended = kept.get(side, (tokenizer, False))
            if before.fingerprint != tokenizer.fingerprint:
                raise UserError(
                    f"init.parts: {runs[side]} and {part.run} have different vocabularies for the {side}, and both "
                    'are to be kept: set vocabulary = "own" for one of the parts'
                )
            kept[side] = tokenizer, extended or part.vocabulary == "extend"
            runs[side] = part.run
        return kept

    @torch.no_grad()
    def hand_over(self, model: nn.Module, table: config.Table, tokenizers: Tokenizers) -> Transfer:
        """Copies the weights of each part into the new ``model``, in place, if they fit, in the order of the parts.
        ``table`` has the new model's settings, and ``tokenizers`` its vocabularies. Returns the report.

        ``Predecessor.hand_over`` says which parameters fit. Raises UserError if a part is no module of its model, or if
        none of its parameters fit.
        """
        own, reports, covered = named_parameters(model), [], set()
        for part, transducer in self.parts:
            inside = _inside(own, part.into, "this model")
            given = _inside(named_parameters(transducer.model), part.taken, str(part.run))
            vocabulary = {
                "keep": "its vocabulary",
                "extend": "its vocabulary, extended",
                "own": "a vocabulary of its own",
            }
            heading = (
                f"{part.into} starts from {part.taken} of {part.run} ({part.checkpoint}), with "
                f"{vocabulary[part.vocabulary]}"
            )
            found = Inheritance(part, heading)
            old, axes = transducer.settings["model"], axes_of(transducer, table, tokenizers)
            if not tokenizers.joint and _side(part.into) != _side(part.taken):  # equal vocabularies, but swapped
                axes = vocabulary_axes(table, tokenizers), vocabulary_axes(old, transducer.tokenizers)
            names = {name: part.taken + name.removeprefix(part.into) for name in inside}
            copy_weights(found, own, given, axes, names)
            if not found.loaded and not found.by_token:
                raise UserError(
                    f"init.parts: nothing of {part.taken} of {part.run} fits {part.into}, by name and shape:\n"
                    + "\n".join(found.lines()[1:])
                    + f"\nmake {part.into} more like that of its config.toml, or leave the part out"
                )
            reports.append(found)
            covered |= {own[name] for name in inside}
        firsts = [name for name, parameter in model.named_parameters() if parameter not in covered]
        return Transfer(reports, firsts, [name for name, _ in model.named_parameters()])


def _side(module: str) -> str:
    return "source" if module.split(".")[0] == "encoder" else "target"


def _inside(every: Mapping[str, Tensor], module: str, whose: str) -> dict[str, Tensor]:
    """The parameters of a module, or the parameter of this name, by their full names. Raises UserError if there are
    none.
    """
    found = {name: value for name, value in every.items() if f"{name}.".startswith(f"{module}.")}
    if not found:
        modules = {name.rsplit(".", depth)[0] for name in every for depth in range(1, name.count(".") + 1)}
        raise UserError(f'init.parts: {whose} has no part "{module}"{alternatives(module, modules)}')
    return found

"""Runs of n-gram models that are not trained: they come from an ARPA file, or from another run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from transduce.core import config
from transduce.core.errors import UserError
from transduce.core.types import UNK
from transduce.data.preparation import NOTHING, Tokenizers
from transduce.data.tokenizers.base import Tokenizer
from transduce.data.tokenizers.text import Symbols, TextTokenizer
from transduce.runs.from_model import write_run
from transduce.runs.layout import CONFIG, Checkpoint
from transduce.runs.run import Run
from transduce.training.begin import RunExistsError
from transduce.training.settings import Settings
from transduce.wings.counted import arpa
from transduce.wings.counted.models.ngram import Ngram
from transduce.wings.counted.ngrams import NGrams
from transduce.wings.counted.pruning import prune

SETTINGS: config.Table = {
    "model": {"type": "ngram"},
    "training": {"epochs": 1},
    "search": {"type": "beam", "max_length": 200},
    "metrics": ["perplexity", "token_accuracy"],
}
"""The settings of a run from an ARPA file, except its units and its order. It has no data."""


@dataclass(frozen=True)
class NgramModel:
    """An n-gram language model with its tokenizers and the settings of its run. ``report`` are lines for people."""

    ngrams: NGrams
    tokenizers: Tokenizers
    settings: config.Table
    report: tuple[str, ...] = ()

    @classmethod
    def from_run(cls, path: Path, checkpoint: Checkpoint = "best") -> NgramModel:
        """The model of a run. Raises UserError if it is no n-gram language model."""
        run = Run.open(path)
        kind = run.settings["model"].get("type")
        if kind != "ngram":
            raise UserError(
                f"{path} has a model of type {kind!r}: an n-gram language model was expected (`transduce train "
                "ptb-ngram`), or an ARPA file"
            )
        model = cast(Ngram, run.model(checkpoint))
        return cls(model.ngrams.ngrams(), run.tokenizers, run.settings)

    @classmethod
    def from_arpa(cls, path: Path, like: Path | None = None) -> NgramModel:
        """The model of an ARPA file, with the words of the file as its vocabulary.

        If ``like`` is a run, the model gets the run's target vocabulary instead, so that both can be used together.
        N-grams with other words are left out. Raises UserError for a file that is no ARPA file, for units of numbers or
        factors, and if the file has no word of that vocabulary.
        """
        read = arpa.read(path)
        if like is None:
            units: config.Table = {"target": {"type": "symbols", "normalisation": "none"}}
            target: Tokenizer = _symbols(read.vocabulary)
        else:
            run = Run.open(like)
            own = run.settings["data"].get("units", {})
            units, target = {"target": own.get("joint") or own.get("target")}, run.tokenizers.target
        ngrams, (foreign, lacking) = read.ngrams(_names(target))
        if foreign == len(read.vocabulary) > 0:
            raise UserError(
                f"no word of {path} is in the target vocabulary of {like}: its units divide text in another way; train "
                "a model with these units instead (`transduce train ptb-ngram --init RUN`)"
            )
        report = (
            *([f"{foreign:,} words of the file are not in the vocabulary of {like}"] if foreign else []),
            *(
                [f"{lacking:,} words of the vocabulary are not in the file: as probable as {arpa.UNKNOWN}"]
                * (lacking > 0)
            ),
        )
        table = {"data": {"units": units}, **SETTINGS, "model": {"type": "ngram", "order": ngrams.order}}
        return cls(ngrams, Tokenizers(NOTHING.learn(()), target), table, report)

    def pruned(self, threshold: float) -> NgramModel:
        """A copy of the model without the n-grams that change little (``statistical.pruning.prune``). Its settings have
        the ``threshold``.
        """
        model = {**self.settings["model"], "prune": threshold}
        return replace(self, ngrams=prune(self.ngrams, threshold), settings={**self.settings, "model": model})

    def write_arpa(self, path: Path) -> None:
        """Writes an ARPA file, gzipped if its name ends with .gz."""
        arpa.write(self.ngrams, _names(self.tokenizers.target), path)

    def write_run(self, path: Path) -> None:
        """Writes a run directory with the checkpoints best and last, which are the same. Raises RunExistsError if the
        directory holds a run, and UserError if it has other files.
        """
        if (path / CONFIG).exists():
            raise RunExistsError(path)
        settings, table = config.build_and_resolve(self.settings, Settings, self.tokenizers.facts)
        model = cast(Ngram, settings.model())
        model.ngrams.learn(self.ngrams)
        about = {"step": 0, "what": "n-grams from a file or another run"}
        write_run(path, table, self.tokenizers, model, about, ("best", "last"))

    def summary(self) -> list[str]:
        """Lines for people: the report, the number of n-grams and of words, and the number of n-grams of each order."""
        counts = [f"  {count:>13,} {n}-grams" for n, count in enumerate(self.ngrams.counts, 1)]
        return [*self.report, f"{len(self.ngrams) - 1:,} n-grams over {self.ngrams.words - 2:,} words", *counts]


def _symbols(words: tuple[str, ...]) -> TextTokenizer:
    """A tokenizer of words between white space. Its vocabulary is the special tokens, then ``words``."""
    record = Symbols(normalisation="none").learn(()).as_json()
    vocabulary = record["model"]["vocab"]
    for word in words:
        vocabulary.setdefault(word, len(vocabulary))
    return TextTokenizer.from_json(record)


def _names(tokenizer: Tokenizer) -> list[str]:
    """The entries of a vocabulary from <unk> on, in the spelling of an ARPA file. Raises UserError for units of numbers
    or factors.
    """
    if tokenizer.numeric or tokenizer.factors > 1:
        raise UserError("n-grams are of text, and these units are numbers or factors: set data.units.target to text's")
    return [arpa.UNKNOWN, *(arpa.written(str(entry)) for entry in tokenizer.entries[UNK + 1 :])]

"""What a packed run is for, in words: read from its settings, so nothing here imports torch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from transduce.core import registry
from transduce.core.config import TableView

LABELLING = ("labels", "viterbi", "posterior")  # searches whose outputs are labels
SHOWN = 40  # labels in a card
UNITS = {
    "characters": "text (in characters)",
    "words": "text (in words)",
    "spelled": "text (in words and their letters)",
    "symbols": "symbols",
    "bpe": "text (in pieces of words, bpe)",
    "unigram": "text (in pieces of words, unigram)",
    "sentencepiece": "text (in pieces of words, sentencepiece)",
    "bytes": "text (in bytes)",
    "numbers": "numbers",
    "sound": "recordings",
    "picture": "pictures",
    "clip": "clips",
    "pair": "pairs of texts",
    "features": "words with the features of a form",
    "sentences": "text (in sentences)",
    "tree-tags": "trees (as a tag for each word)",
    "tree-brackets": "trees (in brackets)",
    "code": "text or code (in words and signs)",
    "labelled": "text with labels",
    "selection": "the parts of it that are kept",
    "page-order": "text (in characters, from left to right)",
    "factored": "words with factors",
}
INPUTS = {
    "sound": ("recording.wav", "the path of a recording"),
    "picture": ("picture.png", "the path of a picture"),
    "clip": ("clip", "the folder of a clip's pictures"),
    "numbers": ("1.5 2.0 2.5", "numbers with spaces between them"),
    "pair": ("a text\\ta second text", "two texts with a tab between them"),
    "gaps": ("The ___ barks", "a text with gaps"),
}


def unit(settings: TableView, side: str) -> str:
    """The type of the units of a side: "" if the side has none."""
    units = settings["data"].get("units", {})
    table = units.get(side, units.get("joint"))
    return str(table.get("type", "")) if isinstance(table, Mapping) else str(table or "")


def is_language_model(settings: TableView) -> bool:
    """True if the model has no source: it continues a text."""
    return all(_type(model) in ("language-model", "ngram") for model in members(settings["model"]))


def members(model: TableView) -> list[TableView]:
    """The models that answer together: those inside a mixture at any depth, or the model alone."""
    return [chain[-1] for chain in chains(model)]


def chains(model: TableView) -> list[tuple[TableView, ...]]:
    """For each member of a mixture, the models from the outermost one to the member."""
    inner = [table for table in _tables(model) if _type(table) in registry.NAMES["Model"]]
    return [(model, *chain) for table in inner for chain in chains(table)] or [(model,)]


def _tables(table: TableView | list[object]) -> Iterator[TableView]:
    values = table.values() if isinstance(table, Mapping) else table
    for value in values:
        if isinstance(value, Mapping):
            yield value
        elif isinstance(value, list):
            yield from (each for each in value if isinstance(each, Mapping))


def _type(table: TableView) -> str:
    return str(table.get("type", ""))


def labels(settings: TableView, tokenizer: Path) -> tuple[str, ...]:
    """The labels that a classifier or tagger answers with, from the file of its target's tokenizer; () for others."""
    if settings.get("search", {}).get("type") not in LABELLING or unit(settings, "target") not in ("labels", "symbols"):
        return ()
    table = json.loads(tokenizer.read_text(encoding="utf-8"))
    if table.get("labels"):
        return tuple(map(str, table["labels"][0]))
    special = {each["content"] for each in table.get("added_tokens", ())}
    return tuple(each for each in table.get("model", {}).get("vocab", {}) if each not in special)


def summary(settings: TableView, labels: Sequence[str]) -> str:
    """What the model does: a clause that begins with a verb."""
    source, target = (UNITS.get(kind, kind) for kind in (unit(settings, "source"), unit(settings, "target")))
    if settings["model"].get("type") == "word-aligner":
        return "says which word of a sentence belongs to which word of its translation"
    if unit(settings, "source") == "gaps":
        return "fills the gaps of a text"
    if is_language_model(settings):
        return f"is a language model: it continues {target}, and says how probable a text is"
    if labels and unit(settings, "target") == "symbols":
        return f"reads {source} and gives each word one of {len(labels)} labels"
    if labels:
        return f"reads {source} and answers with one of {len(labels)} labels"
    return f"turns {source} into {target}"


def usage(settings: TableView, address: str) -> tuple[list[str], list[str]]:
    """How to use the model: lines of Python, and commands."""
    if settings["model"].get("type") == "word-aligner":
        return ['model.align([("a sentence", "its translation")])'], [f"transduce align {address} pairs.tsv"]
    if is_language_model(settings):
        return (
            ['model.generate("…", length=50)   # texts that go on with a beginning', 'model.complete(["…"])'],
            [f'transduce generate {address} --prompt "…"', f"transduce score {address} texts.txt"],
        )
    example, meaning = INPUTS.get(unit(settings, "source"), ("…", "a text for a text, and a list for a list"))
    return [f'model("{example}")   # {meaning}'], [f"transduce predict {address} sources.txt"]


def limits(settings: TableView, labels: Sequence[str], lines: int) -> Iterator[str]:
    """What the model cannot do, as far as its settings tell. ``lines`` is the size of its training set; 0 if nobody
    knows it.
    """
    rules, search = settings["data"].get("lines", {}), settings.get("search", {})
    if lines:
        yield f"It learned from {lines:,} lines. What they do not have, it can only guess."
    if labels:
        yield "It answers with one of its labels for every input, also if none of them is right."
    if not is_language_model(settings) and (longest := rules.get("max_source_length")):
        yield f"It learned from no source of more than {longest} tokens. Longer ones have worse outputs."
    if not labels and (longest := search.get("max_length")):
        yield f"An output is cut after {longest} tokens (`search.max_length`)."
    if unit(settings, "source") in ("characters", "words", "symbols"):
        kind = unit(settings, "source")
        yield f"It cannot read {kind} that its training data do not have. An answer counts them as unknown."

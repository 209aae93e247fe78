"""Writes a run as one file for the engine that needs nothing else (``transduce_engine``). docs/engine.md describes it.

The file is a safetensors file, and its header has texts: the model's description, the tokenizers, the
search, the limits of lines, the settings and the card.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unicodedata import bidirectional

import torch
from torch import Tensor

import transduce
import transduce_engine
from transduce.answers.answer import Output
from transduce.answers.transducer import Transducer
from transduce.core import registry
from transduce.core.config import Table, TableView
from transduce.core.errors import UserError
from transduce.core.files import is_engine_file, write_file
from transduce.core.protocols import Model, Search
from transduce.core.types import SPECIALS, Example, Hypothesis, Prediction
from transduce.data.tokenizers.base import Tokenizer
from transduce.data.tokenizers.storage import TEXT, from_record, record_of
from transduce.data.tokenizers.text import Bytes, Characters, Symbols, Words
from transduce.metrics.base import evaluate, metric
from transduce.runs.layout import SHORTLIST, Checkpoint
from transduce.runs.run import Run
from transduce.search.base import ends_freely
from transduce.wings.engines.engine_files import EngineModel, open_file
from transduce.wings.engines.export.parity import Parity, Quality, check
from transduce.wings.engines.native.content import model_content
from transduce.wings.engines.native.conversion.converting import check as check_model
from transduce.wings.engines.native.conversion.models import ENGINE
from transduce.wings.engines.native.searches import check_search, penalties

UNITS = {"characters": Characters, "words": Words, "symbols": Symbols, "bytes": Bytes}
FORMS = ("none", "NFC", "NFD", "NFKC")
LABELS, SIGNAL, PAGE_ORDER = "labelled", "signal", "page-order"  # kinds of tokenizers
FEATURES, SPELLED = "features", "spelled"
SIGNALS = ("picture", "sound")  # that the engine reads
FROM_LEFT = {"L", "EN", "ES", "ET", "CS", "ON", "WS", "NSM"}  # classes of characters that no page from the left moves
NO_SOURCE = {"unit": "nothing", "form": "none", "lowercase": False, "size": len(SPECIALS)}
MOST_WORDS = 2**16  # of a vocabulary with a shortlist: its ids have 16 bits
CLOSE = 1e-3  # the largest difference of a score, as in parity.py


def export_engine(
    run: Run, out: Path, checkpoint: Checkpoint, sample: Sequence[Example], precision: str, shortlist: bool = False
) -> tuple[Path, Parity | Quality]:
    """Writes the file ``out``, and compares its outputs for the ``sample`` with PyTorch's. With the run's
    ``shortlist``, both search among its words. Raises UserError if the engine does not have a part of the run, if
    ``out`` is a folder, or if the outputs differ in float32; then no file is written.
    """
    if not is_engine_file(out):
        better = out / f"{run.path.name}.engine" if out.is_dir() else out.with_suffix(".engine")
        raise UserError(f"--out {out}: a file whose name ends in .engine was expected, such as {better}")
    content, compared = compared_content(run, checkpoint, sample, precision, shortlist)

    def fill(path: Path) -> None:
        path.write_bytes(content)

    write_file(out, fill)
    return out, compared


def compared_content(
    run: Run, checkpoint: Checkpoint, sample: Sequence[Example], precision: str, shortlist: bool = False
) -> tuple[bytes, Parity | Quality]:
    """The bytes of the file of a run, and how its outputs for the ``sample`` compare with PyTorch's. Raises UserError
    if the engine does not have a part of the run, or if the outputs differ in float32.
    """
    transducer = run.transducer(checkpoint)
    transducer = transducer.with_search(transducer.search)  # which gets the vocabularies, for names of labels
    texts, lists = described(run, transducer), dict[str, Tensor]()
    if shortlist:
        search = registry.find("Search", "shortlist")(run.path / SHORTLIST, transducer.search)
        transducer, lists = replace(transducer, search=search), _lists(transducer, search.candidates)
        each = len(lists["shortlist.best"]) // len(transducer.source_tokenizer)
        texts["search"] = json.dumps({**json.loads(texts["search"]), "shortlist": each})
    content = model_content(transducer.model, run.complete("model", Model), precision, texts, more=lists)
    return content, _compared(transducer, content, sample, precision, run.settings.get("metrics", ()))


def _lists(transducer: Transducer, candidates: Any) -> dict[str, Tensor]:
    """The tensors of a shortlist, ``CandidateWords`` of the wing counted. Raises UserError for one of another model,
    and for a vocabulary that is too large.
    """
    best_SN, always_A = candidates.best_SN, candidates.always_A
    sizes = len(transducer.source_tokenizer), len(transducer.target_tokenizer)
    if len(best_SN) != sizes[0] or int(best_SN.max()) >= sizes[1]:
        raise UserError("the shortlist was learned for another model; learn one with `transduce shortlist RUN`")
    if sizes[1] > MOST_WORDS:
        raise UserError(f"the shortlist is of {sizes[1]} words: {ENGINE} has lists of {MOST_WORDS} words or fewer")
    return {"shortlist.best": best_SN.flatten().to(torch.uint16), "shortlist.always": always_A.to(torch.uint16)}


def described(run: Run, transducer: Transducer) -> dict[str, str]:
    """The texts of the header except the model's. Raises UserError for a part of the run that the engine lacks."""
    model, search = run.complete("model", Model), run.complete("search", Search)
    check_model(model)
    check_search(search, model["type"])
    tokenizers = run.tokenizers
    source = tokenizer_notes(tokenizers.source, "source") if tokenizers.conditional else NO_SOURCE
    if source["unit"] == SIGNAL and search["type"] == "sampling":
        raise UserError(f"search.type = 'sampling': {ENGINE} draws no samples for signals; predict with --engine torch")
    columns = tokenizers.source.columns if tokenizers.conditional else 1
    keeps_empty = transducer.keeps_empty or not ends_freely(transducer.search) or columns > 1
    limits = {"max_source_length": transducer.max_source_length, "keeps_empty": keeps_empty}
    return {
        "source": json.dumps(source, ensure_ascii=False),
        "target": json.dumps(tokenizer_notes(tokenizers.target, "target"), ensure_ascii=False),
        "search": json.dumps({**search, **penalties(transducer.search)}),
        "limits": json.dumps(limits),
        "settings": json.dumps(run.settings, default=str, ensure_ascii=False),
        "card": card(run.path.name, run.settings),
    }


def tokenizer_notes(tokenizer: Tokenizer, side: str) -> Table:
    """What the engine must know of a tokenizer: its unit, how it normalises, and its record. The engine itself reads
    characters, words, symbols and bytes, and writes labels. It reads features before a text, words in pieces,
    recordings and pictures. For other texts, such as subwords, the unit is "library": Python reads them. Raises
    UserError for other tokens, and for other columns beside a text.
    """
    record = record_of(tokenizer)
    if side == "source" and tokenizer.kind == SIGNAL:
        return {"unit": SIGNAL, "size": len(tokenizer), "record": _signal_record(record)}
    if side == "source" and tokenizer.kind == FEATURES:
        own = {"names": list(record["features"]), "separator": record["separator"]}
        return _own_notes(record["text"], side) | {"size": len(tokenizer), "features": own}
    if side == "source" and tokenizer.kind == SPELLED:
        if "lists" in record:
            raise UserError(
                f"the source's words have lists of phrases: {ENGINE} reads none; predict with the run itself"
            )
        if "about_passages" in record:
            raise UserError(f"sources ask about a passage: {ENGINE} reads none; predict with the run itself")
        own = {"known": _own_notes(record["known"], side)} if "known" in record else {}
        own |= {"shapes": True} if tokenizer.shapes else {}
        return _own_notes(record["words"], side) | {"size": len(tokenizer), "spelled": own}
    if side == "target" and tokenizer.kind == PAGE_ORDER:
        return tokenizer_notes(_in_reading_order(tokenizer), side)
    if side == "target" and tokenizer.kind == LABELS and tokenizer.columns == 1:
        return {"unit": "labels", "form": "none", "lowercase": False, "size": len(tokenizer), "record": record}
    if tokenizer.kind != TEXT or tokenizer.columns > 1 or tokenizer.signal:
        raise UserError(
            f"the {side} side is read by a tokenizer of the kind {tokenizer.kind!r}: {ENGINE} reads plain text only; "
            "predict with the run itself"
        )
    own = _without_vocabulary(record)
    found = {"unit": "library", "form": "none", "lowercase": False}
    for form in FORMS:
        for lowercase in (False, True):
            for name, unit in UNITS.items():
                learned = unit(normalisation=form, lowercase=lowercase).learn(["a"])
                if _without_vocabulary(learned.as_json()) == own:
                    found = {"unit": name, "form": form, "lowercase": lowercase}
    return {**found, "size": len(tokenizer), "record": record}


def _own_notes(record: Table, side: str) -> Table:
    """The notes of a text inside of another tokenizer. Raises UserError for a text that needs the library."""
    text = from_record(record)
    notes = tokenizer_notes(text, side) if text.kind == TEXT else {"unit": text.kind}
    if notes["unit"] not in UNITS:
        raise UserError(
            f"the {side} side has features or words of {notes['unit']} units: {ENGINE} reads them with "
            f"{', '.join(UNITS)} only; predict with the run itself"
        )
    return notes


def _signal_record(record: Table) -> Table:
    """The record of a tokenizer of signals. Raises UserError for an option that the engine does not have."""
    unit = record["signal"]
    for key, allowed in {"type": SIGNALS, "cepstra": (None,), "differences": (None, 0)}.items():
        if unit.get(key) not in allowed:
            raise UserError(
                f"data.units.source.{key} = {unit[key]!r}: {ENGINE} reads pictures, and recordings as log-mel "
                "energies; predict with the run itself"
            )
    return record


def _in_reading_order(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer of lines from the left edge of a page, if these are texts in the order of reading. Raises UserError
    if the page begins at its right edge, or has characters that run from there.
    """
    record = tokenizer.as_json()
    text = from_record(record["text"])
    moved = {c for entry in text.entries[len(SPECIALS) :] for c in str(entry) if bidirectional(c) not in FROM_LEFT}
    if record["direction"] != "ltr" or moved:
        raise UserError(
            f"the target side is in the order of a page that has text from right to left: {ENGINE} writes from left to "
            "right only; predict with the run itself"
        )
    return text


def _without_vocabulary(record: TableView) -> Table:
    model = {key: value for key, value in record["model"].items() if key not in ("vocab", "merges")}
    return {**record, "model": model}


def card(name: str, settings: TableView) -> str:
    """A few lines about the model, for people."""
    model, data = settings.get("model", {}), settings.get("data", {})
    return "\n".join(
        [
            f"# {name}",
            f"Trained and exported with transduce {transduce.__version__}.",
            f"Model: {json.dumps(model, default=str)}",
            f"Data: {json.dumps(data, default=str)}",
        ]
    )


# ---------------------------------------------------------------- the check


def _compared(
    transducer: Transducer, content: bytes, sample: Sequence[Example], precision: str, metrics: Sequence[str]
) -> Parity | Quality:
    """How the file compares with PyTorch: by outputs in float32, otherwise by the ``metrics`` too. In float32, raises
    UserError if outputs differ (``parity.check``).
    """
    opened = open_file(content)
    if not transducer.conditional:
        return _compared_texts(transducer, opened, sample, precision)
    sources = [each.source for each in sample]
    ours = [found[0] for found in transducer.predict(sources)]
    theirs = [answer.best for answer in opened.answer_texts(sources)]
    same = [one.ids == two.ids for one, two in zip(ours, theirs, strict=True)]
    if precision != "float32":
        scores = _scores(ours, sample, metrics), _scores(theirs, sample, metrics)
        return Quality(len(sample), sum(same), {name: (score, scores[1][name]) for name, score in scores[0].items()})
    if "shortlist" in opened.engine.description("search"):  # given outputs are scored by the whole model
        pairs = [(one, two) for one, two, equal in zip(ours, theirs, same, strict=True) if equal]
        largest = _largest_difference(*zip(*pairs, strict=True)) if pairs else 0.0
    else:
        rows = sources if opened.engine.signal else [source.row for source in transducer.read(sources)]
        largest = _largest_difference(ours, opened.force(rows, [one.ids for one in ours]))
    ties = sum(
        not equal and abs((one.score or 0.0) - two.score) <= CLOSE
        for equal, one, two in zip(same, ours, theirs, strict=True)
    )
    parity = Parity(len(sample), sum(same), ties, largest)
    check(parity, "the engine")
    return parity


def _compared_texts(
    transducer: Transducer, opened: EngineModel, sample: Sequence[Example], precision: str
) -> Parity | Quality:
    """The same for a language model, by its log-probabilities of the sample's texts."""
    texts = [each.references[0] if each.references else each.source for each in sample]
    ours = list(transducer.score([("", text) for text in texts]))
    theirs = [answer.best for answer in opened.score_texts(texts)]
    if precision != "float32":
        tokens = sum(len(each.token_log_probs) for each in ours) or 1
        means = [sum(each.log_prob or 0.0 for each in outputs) / tokens for outputs in (ours, theirs)]
        return Quality(len(texts), None, {"log-probability of a token": (means[0], means[1])})
    same = sum(tuple(one.ids) == two.ids for one, two in zip(ours, theirs, strict=True))
    parity = Parity(len(texts), same, 0, _largest_difference(ours, theirs))
    check(parity, "the engine")
    return parity


def _largest_difference(ours: Sequence[Output], theirs: Sequence[transduce_engine.Output | Hypothesis]) -> float:
    """Of the log-probability of a token."""
    pairs = [
        (a, b)
        for one, two in zip(ours, theirs, strict=True)
        for a, b in zip(one.token_log_probs, two.token_log_probs, strict=True)
    ]
    return max((abs(a - b) for a, b in pairs), default=0.0)


def _scores(
    outputs: Sequence[Output | transduce_engine.Output], sample: Sequence[Example], metrics: Sequence[str]
) -> dict[str, float]:
    """The scores of the outputs by the metrics that read outputs; none if an example has no reference."""
    if not all(example.references for example in sample):
        return {}
    read = [each for each in map(metric, metrics) if not each.needs_forcing]
    return evaluate(read, [Prediction(each.text, each.log_prob) for each in outputs], sample)

"""What a run is for, in plain words: its title, its summary, its engine, its examples, and its card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import transduce
from transduce.answers.transducer import Transducer
from transduce.core.errors import UserError
from transduce.core.text_files import read_text
from transduce.runs.layout import TOKENIZERS
from transduce.runs.packed import CARD, is_pack
from transduce.wings.engines.sharing import kinds
from transduce.wings.engines.sharing.card import Card
from transduce.wings.engines.sharing.examples import examples_of
from transduce.wings.engines.sharing.packing import card, portable
from transduce.wings.serving.languages import name_of

ENGINES = {"native": "native", "onnx": "ONNX", "ctranslate2": "CTranslate2"}  # by the name of their module
READ = {"sound": "Recordings", "picture": "Pictures", "clip": "Clips", "numbers": "Numbers", "pair": "Pairs of texts"}


def about(transducer: Transducer, languages: tuple[str, str] | None) -> dict[str, Any]:
    """The plain words for a run, as values for JSON. ``languages`` are its codes of languages."""
    settings, labels = transducer.settings, _labels(transducer)
    names = (None, None) if languages is None else tuple(map(name_of, languages))
    return {
        "title": _title(settings, labels, names),
        "summary": kinds.summary(settings, labels) if "data" in settings else "",
        "engine": _engine(transducer.model),
        "examples": list(examples_of(transducer.folder)),
        "source_language_name": names[0],
        "target_language_name": names[1],
    }


def card_of(name: str, transducer: Transducer) -> str:
    """The card of a run in Markdown: the one that it was packed with, otherwise one from its files. A run of several
    members, or one in memory, has what its settings tell.
    """
    run = transducer.folder
    if run is not None and is_pack(run) and (run / CARD).is_file():
        return read_text(run / CARD)
    try:
        if run is not None:
            return str(card(run, run, (), str(run.name)))
    except (OSError, UserError):  # no checkpoint is called best: the settings tell the rest
        pass
    count = sum(each.numel() for each in transducer.model.parameters())
    return str(Card(name, portable(transducer.settings), transduce.__version__, count))


def _title(settings: Mapping[str, Any], labels: tuple[str, ...], names: tuple[Any, ...]) -> str:
    """A few words for a list of runs."""
    if names[0] is not None:
        return f"{names[0]} to {names[1]}"
    if "data" not in settings:
        return "Text to text"
    source, target = (kinds.unit(settings, side) for side in ("source", "target"))
    if kinds.is_language_model(settings):
        return "Text that goes on"
    read = READ.get(source, "Text")
    if settings.get("search", {}).get("type") in kinds.LABELLING:
        many = f"one of {len(labels)} labels" if labels else "a label"
        return f"{read}: a label for each word" if target == "symbols" else f"{read}: {many}"
    return f"{read} to {'numbers' if target == 'numbers' else 'text'}"


def _labels(transducer: Transducer) -> tuple[str, ...]:
    if transducer.folder is None or "data" not in transducer.settings:
        return ()
    file = transducer.folder / TOKENIZERS / "target.json"
    return kinds.labels(transducer.settings, file) if file.is_file() else ()


def _engine(model: Any) -> str:
    """The engine that computes a model. The native one computes the parts of a model of this package."""
    modules = getattr(model, "modules", lambda: [model])()
    parts = [each for module in modules for each in (module, *vars(module).values())]
    places = {name for part in parts for name in type(part).__module__.split(".")}
    return next((name for module, name in ENGINES.items() if module in places), "PyTorch")

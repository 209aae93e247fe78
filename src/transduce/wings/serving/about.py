"""What a run is for, in plain words: its title, its summary, its engine and its examples."""

from __future__ import annotations

from collections.abc import Sequence

from transduce.core.config import Table
from transduce.wings.engines.sharing import kinds
from transduce.wings.serving.languages import name_of

READ = {"sound": "Recordings", "picture": "Pictures", "clip": "Clips", "numbers": "Numbers", "pair": "Pairs of texts"}


def about(
    settings: Table,
    labels: tuple[str, ...],
    engine: str,
    examples: Sequence[str],
    languages: tuple[str, str] | None,
) -> dict[str, object]:
    """The plain words for a run, as values for JSON. ``labels`` are those that it answers with, ``examples`` inputs to
    try, and ``languages`` its codes of languages.
    """
    names = (None, None) if languages is None else tuple(map(name_of, languages))
    return {
        "title": _title(settings, labels, names),
        "summary": kinds.summary(settings, labels) if "data" in settings else "",
        "engine": engine,
        "examples": list(examples),
        "source_language_name": names[0],
        "target_language_name": names[1],
    }


def _title(settings: Table, labels: tuple[str, ...], names: tuple[str | None, ...]) -> str:
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
    if "per" in settings.get("metrics", ()):  # phoneme errors are counted
        return "Words to pronunciations"
    return f"{read} to {'numbers' if target == 'numbers' else 'text'}"

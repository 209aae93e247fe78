"""Puts a page together: the engine, its JavaScript and a model in one file of HTML."""

from __future__ import annotations

import base64
import html
import re
from importlib import resources

MODULE = ("transduce.mjs", "transduce.d.mts", "engine.wasm")
"""The files for people's own pages."""
TOKENIZERS = "tokenizers.mjs"
"""What reads subwords; only models with subwords need it."""
END_OF_SCRIPT = re.compile(r"</(?=script)", re.IGNORECASE)


def content(name: str) -> bytes:
    """A file of this folder."""
    return resources.files("transduce.wings.engines.web").joinpath(name).read_bytes()


def page(title: str, file: bytes, subwords: bool) -> str:
    """A page that answers with the model of an engine's file, and requests nothing. ``subwords`` says whether a side of
    the model has subwords.
    """
    parts = {
        "title": html.escape(title),
        "module": _classic("transduce.mjs", "engine"),
        "tokenizers": _classic(TOKENIZERS, "tokenizers") if subwords else "",
        "wasm": base64.b64encode(content("engine.wasm")).decode(),
        "file": base64.b64encode(file).decode(),
    }
    template = content("page.html").decode()
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)


def _classic(name: str, to: str) -> str:
    """A module as a script that puts what it exports into the variable ``to``: browsers load no module in a page that
    stands on the disk. The text must not end the element ``script``.
    """
    text = content(name).decode()
    names = {declared: declared for declared in re.findall(r"^export (?:async )?\w+ (\w+)", text, re.MULTILINE)}
    text = re.sub(r"^export (?=\w)", "", text, flags=re.MULTILINE).replace("import.meta.url", "self.location.href")
    listed = re.search(r"export ?\{(.*?)\};?\s*$", text)
    if listed:
        text = text[: listed.start()]
        names |= {shown: own for own, _, shown in (each.strip().partition(" as ") for each in listed[1].split(","))}
    exports = ", ".join(f"{shown}: {own}" for shown, own in names.items())
    return END_OF_SCRIPT.sub(r"<\\/", f"self.{to} = (() => {{\n{text}\nreturn {{ {exports} }};\n}})();\n")

"""The page of the interface at /docs: each route with its keys and an example, from the server's own description."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from transduce.core.config import Table
from transduce.wings.pages.markup import Markup, element, joined, table
from transduce.wings.pages.page import document, section

STYLE = """
nav a { margin-right: 1.2rem; } a { color: var(--blue); } th, td { white-space: normal; text-align: left; }
.verb { color: var(--green); margin-right: .5rem; } h3 { margin: 2rem 0 .3rem; font-size: 1rem; }
section { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 40rem), 1fr)); gap: 0 3rem; }
h2 { grid-column: 1 / -1; margin-bottom: 0; } article { min-width: 0; }
"""
EXAMPLES = {"source": "knowledge", "target": "nɒlɪdʒ", "prompt": "Once", "q": "Ein Hund läuft.", "file": "@file.txt"}
GROUPS = {"runs": "Runs", "openai": "OpenAI's interface", "libretranslate": "LibreTranslate's interface"}
LAST = {"operation": "Operation"}


def api_page(described: Table) -> str:
    """The page for a description in OpenAPI's format. It is one HTML file without scripts."""
    base = described["servers"][0]["url"].rstrip("/")
    routes = [
        (path, verb, given) for path, verbs in described["paths"].items() for verb, given in sorted(verbs.items())
    ]
    groups = [
        (title, [each for each in routes if each[2].get("tags", ["runs"])[0] == tag])
        for tag, title in {**GROUPS, **LAST}.items()
    ]
    links = [element("a", title, href=f"#{_anchor(title)}") for title, _ in groups]
    links.append(element("a", "openapi.json", href="openapi.json"))
    sections = [
        element("div", section(title, *(_route(base, *each) for each in some)), id=_anchor(title))
        for title, some in groups
    ]
    title = f"{described['info']['title']} {described['info']['version']}: the interface"
    about = described["info"].get("description", "")
    return document(title, about, element("nav", *links), *sections, style=STYLE, icon="data:,")


def _route(base: str, path: str, verb: str, given: Table) -> Markup:
    kind, schema = _body(given)
    name = element("code", element("span", verb.upper(), class_="verb"), path)
    heading = element("h3", name, id=_anchor(f"{verb} {path}"))
    about = (given["description"], schema.get("description", ""))
    parts = [heading, *(element("p", _prose(each)) for each in about if each)]
    if rows := list(_rows(schema)):
        parts.append(table(["key", "type", "default", "range"], rows))
    parts.append(element("pre", element("code", _curl(base + path, verb, kind, schema))))
    return element("article", *parts)


def _prose(text: str) -> Markup:
    """A docstring as markup, with code between double backticks."""
    parts = " ".join(text.split()).split("``")
    return joined(element("code", part) if number % 2 else part for number, part in enumerate(parts))


def _body(given: Table) -> tuple[str, Table]:
    """The type of the content that a route reads, and its schema; both empty if it reads none."""
    content = given.get("requestBody", {}).get("content", {})
    kind = next(iter(content), "")
    return kind, content.get(kind, {}).get("schema", {})


def _rows(schema: Table) -> Iterator[list[str]]:
    needed = schema.get("required", ())
    for name, value in schema.get("properties", {}).items():
        default = "needed" if name in needed else json.dumps(value.get("default"), ensure_ascii=False)
        yield [name, _type(value), default, _range(value)]


def _type(value: Table) -> str:
    if "anyOf" in value:
        return " or ".join(_type(each) for each in value["anyOf"] if each.get("type") != "null")
    if value.get("type") == "array":
        inside = _type(value.get("items", {}))
        return f"list of ({inside})" if " " in inside else f"list of {inside}"
    return str(value.get("format") or value.get("type", "object"))


def _range(value: Table) -> str:
    every = [value, *value.get("anyOf", ())]
    low, high = (next((_number(each[name]) for each in every if name in each), "") for name in ("minimum", "maximum"))
    return f"{low} to {high}" if low and high else f"from {low}" if low else ""


def _curl(url: str, verb: str, kind: str, schema: Table) -> str:
    """The command that asks the route with the keys that it needs."""
    if verb == "get":
        return f"curl {url}"
    names = list(schema.get("required", ())) or [name for name in EXAMPLES if name in schema.get("properties", {})][:1]
    values = {name: EXAMPLES.get(name, _example(schema["properties"][name])) for name in names}
    if kind == "multipart/form-data":
        return joined([f"curl {url}", *(f"-F {name}={value}" for name, value in values.items())], " ")
    return f"curl {url} -H 'content-type: application/json' -d '{json.dumps(values, ensure_ascii=False)}'"


def _example(value: Table) -> object:
    return value.get("examples", ["en"])[0]


def _number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else str(value)


def _anchor(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")

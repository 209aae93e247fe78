"""What the site has beside the pages of docs/: menus, the list of commands, and the docstrings of the public names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import PurePosixPath
from typing import Any

import transduce
from transduce.cli.commands import PANELS, imported

LISTS = ("docs/index", "docs/decisions/README", "book/index")  # each of their lists becomes a menu
MODULES = ("inspect", "recipes")  # public names that are modules
ITEM = re.compile(r"^(?:- |\d+\. )\[.*?\]\(([\w/.-]+)\.md\)", re.MULTILINE)
ORPHAN = "---\norphan: true\n---\n"


def complete(name: str, text: list[str]) -> None:
    """Changes the text of a page, given in a list as Sphinx does."""
    if name in LISTS:
        text[0] = "".join(with_menu(section, name) for section in re.split(r"(?m)^(?=## )", text[0]))
    elif name.startswith("benchmarks/"):
        text[0] = ORPHAN + text[0]  # a page that another page explains, and no menu has
    for mark, write in (("commands", commands), ("python", python)):
        text[0] = text[0].replace(f"<!-- site: {mark} -->", "\n".join(write())) if name.startswith("docs/") else text[0]


def with_menu(section: str, page: str) -> str:
    """A section of a page, and after it the hidden menu of the pages that it lists."""
    listed = [_from_root(page, link) for link in ITEM.findall(section)]
    heading = re.match(r"## (.*)", section)
    if not listed:
        return section
    caption = f":caption: {heading[1]}\n" if heading else ""
    return f"{section.rstrip()}\n\n```{{toctree}}\n:hidden:\n{caption}\n" + "\n".join(listed) + "\n```\n\n"


def _from_root(page: str, link: str) -> str:
    """The name of a page that a link leads to: absolute, as a menu takes it."""
    parts: list[str] = []
    for part in (PurePosixPath(page).parent / link).parts:
        parts = parts[:-1] if part == ".." else [*parts, part]
    return "/" + "/".join(parts)


# -------------------------------------------------------------------- commands


def commands() -> Iterator[str]:
    """The commands of the command line as Markdown: a heading each, its help, and tables of its options."""
    for heading, summaries in PANELS.items():
        yield from (f"## {heading}", "")
        for name in summaries:
            yield from command(name, imported(name), "###")


def command(name: str, found: Any, heading: str) -> Iterator[str]:
    """A command with its options, or a group of commands."""
    inner = getattr(found, "commands", {})
    about, _, examples = cleandoc(found.help or "").partition("\b")
    yield from (f"{heading} {name}", "")
    for paragraph in re.split(r"\n\s*\n", about.strip()):
        yield from (escaped(" ".join(paragraph.split())), "")
    if examples:
        yield from ("```", *(line.strip() for line in examples.strip().splitlines()[1:]), "```", "")
    shown = [each for each in found.params if not each.hidden]
    for words, title in ((False, "argument"), (True, "option")):
        rows = [each for each in shown if each.opts[0].startswith("-") is words]
        if rows:
            yield from (f"| {title} | meaning | default |", "|---|---|---|", *map(row, rows), "")
    for each in sorted(inner):
        yield from command(f"{name} {each}", inner[each], heading + "#")


def row(parameter: Any) -> str:
    """A parameter's names, what it means, and its default."""
    value = "" if getattr(parameter, "is_flag", False) else f" {parameter.metavar}" * bool(parameter.metavar)
    names = ", ".join(f"`{each}{value}`" for each in (*parameter.opts, *parameter.secondary_opts))
    if not parameter.opts[0].startswith("-"):
        names = f"`{parameter.metavar or parameter.name.upper()}`"
    default = parameter.default
    told = "required" if parameter.required else "" if default in (None, False, (), []) else f"`{default}`"
    limits = (("from", parameter.min), ("to", parameter.max))
    bounds = " ".join(f"{word} {limit:,}" for word, limit in limits if limit is not None)
    meaning = escaped(" ".join((parameter.help or "").split())) + f" ({bounds})" * bool(bounds)
    return f"| {_cell(names)} | {meaning} | {_cell(told)} |"


def _cell(code: str) -> str:
    """Code in a cell of a table, where a bar would end the cell."""
    return code.replace("|", "\\|")


def escaped(text: str) -> str:
    """Text of the command line as Markdown: the signs of tables and tags are only signs."""
    code = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([|*_<\[])", r"\\\1", part) for part in code)


# ---------------------------------------------------------------------- Python


def python() -> Iterator[str]:
    """The directives that put the docstrings of the public names onto a page."""
    for name in sorted(transduce.__all__, key=lambda each: (each in MODULES, each[0].isupper(), each.lower())):
        value = getattr(transduce, name)
        if name in MODULES:
            kind, options = "automodule", ["   :members:"]
        elif isinstance(value, type):
            kind, options = "autoclass", ["   :members:", "   :inherited-members: Exception"]
        else:
            kind, options = "autofunction", []
        place = value.__name__ if name in MODULES else f"transduce.{name}"
        yield from (f"## transduce.{name}", "", "```{eval-rst}", f".. {kind}:: {place}", *options, "```", "")

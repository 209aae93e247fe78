"""Formulas as MathML, which browsers draw by themselves: no program, no fonts, no network."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.util import logging

log = logging.getLogger(__name__)


def setup(app: Any) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _inline(page: Any, node: nodes.math) -> None:
    page.body.append(_mathml(node, "inline"))
    raise nodes.SkipNode


def _block(page: Any, node: nodes.math_block) -> None:
    page.body.append(f'<div class="formula" tabindex="0">{_mathml(node, "block")}</div>')
    raise nodes.SkipNode


def _mathml(node: Any, display: str) -> str:
    """The formula. Warns of a command that the converter does not know: it would show the command as text."""
    found: str = convert(node.astext(), display=display)
    if "\\" in found:
        log.warning("a formula has a command that is not known: %s", node.astext(), location=node)
    return found

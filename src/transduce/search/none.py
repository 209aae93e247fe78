"""The search of models that write nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

from transduce.core.errors import UserError
from transduce.core.protocols import Aligner
from transduce.core.types import Padded


@dataclass(frozen=True)
class NoSearch:
    """No search, because the model aligns two given texts and writes nothing. Each use raises UserError."""

    def __call__(self, model: Aligner, source: Any, prefix: Padded | None = None) -> NoReturn:
        raise UserError(_reason(model))

    def force(self, model: Aligner, source: Any, target: Padded) -> NoReturn:
        raise UserError(_reason(model))

    def resized(self, size: int | None = None, nbest: int | None = None) -> NoReturn:
        raise UserError("a word aligner has no search: use `transduce align RUN FILE`")


def _reason(model: Aligner) -> str:
    return (
        "this model aligns two given texts, and neither writes nor scores outputs: use "
        "`transduce align RUN FILE`, or `transduce predict OTHER-RUN --alignments --aligner RUN`"
    )

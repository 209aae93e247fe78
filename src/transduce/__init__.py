"""transduce: learn to turn one sequence into another.

    import transduce
    transduce.train("g2p")
    pronounce = transduce.load("runs/g2p")
    pronounce("knowledge")

Nothing heavy is imported until it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transduce.answers.answer import Answer, Output
    from transduce.answers.request import Extras, Request
    from transduce.answers.transducer import Transducer
    from transduce.api import train
    from transduce.compute.workers import Workers
    from transduce.core import recipes
    from transduce.core.errors import RequestError, UserError
    from transduce.core.registry import register
    from transduce.metrics.edit_distance import distance
    from transduce.runs.loading import load
    from transduce.search.constraints.phrases import Constraints
    from transduce.training.callbacks import Callback
    from transduce.wings.documents.translation import translate_document
    from transduce.wings.fitting.fit import Wishes, fit
    from transduce.wings.lab.sweeps.sweep import sweep
    from transduce.wings.looking import inspection as inspect
    from transduce.wings.protection.protection import Protection

__version__ = "0.2.0"

__all__ = [
    "Answer",
    "Callback",
    "Constraints",
    "Extras",
    "Output",
    "Protection",
    "Request",
    "RequestError",
    "Transducer",
    "UserError",
    "Wishes",
    "Workers",
    "distance",
    "fit",
    "inspect",
    "load",
    "recipes",
    "register",
    "sweep",
    "train",
    "translate_document",
]

_PLACES = {
    "Answer": "transduce.answers.answer",
    "Callback": "transduce.training.callbacks",
    "Constraints": "transduce.search.constraints.phrases",
    "Extras": "transduce.answers.request",
    "Output": "transduce.answers.answer",
    "Protection": "transduce.wings.protection.protection",
    "Request": "transduce.answers.request",
    "RequestError": "transduce.core.errors",
    "Transducer": "transduce.answers.transducer",
    "UserError": "transduce.core.errors",
    "Wishes": "transduce.wings.fitting.fit",
    "Workers": "transduce.compute.workers",
    "distance": "transduce.metrics.edit_distance",
    "fit": "transduce.wings.fitting.fit",
    "load": "transduce.runs.loading",
    "register": "transduce.core.registry",
    "sweep": "transduce.wings.lab.sweeps.sweep",
    "train": "transduce.api",
    "translate_document": "transduce.wings.documents.translation",
}

_PACKAGES = {
    "inspect": "transduce.wings.looking.inspection",
    "recipes": "transduce.core.recipes",
}  # used by these names, as in transduce.inspect.record


def __getattr__(name: str) -> Any:
    from transduce.core.registry import imported

    if name in _PACKAGES:
        return imported(_PACKAGES[name], f"transduce.{name}")
    if name not in _PLACES:
        raise AttributeError(f"module 'transduce' has no attribute {name!r}")
    return imported(f"{_PLACES[name]}:{name}", f"transduce.{name}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

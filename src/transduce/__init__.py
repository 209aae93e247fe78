"""transduce: learn to turn one sequence into another.

    import transduce
    transduce.train("g2p")
    pronounce = transduce.load("runs/g2p")
    pronounce("knowledge")

Nothing heavy is imported until it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transduce import inspect, recipes
    from transduce.answers.answer import Answer, Output
    from transduce.answers.request import Extras, Request
    from transduce.api import train
    from transduce.compute.workers import Workers
    from transduce.errors import RequestError, UserError
    from transduce.metrics.edit_distance import distance
    from transduce.names import register
    from transduce.runs.loading import load
    from transduce.search.constraints.base import Constraints
    from transduce.sweeps.sweep import sweep
    from transduce.training.callbacks import Callback
    from transduce.transducer import Transducer

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "Callback",
    "Constraints",
    "Extras",
    "Output",
    "Request",
    "RequestError",
    "Transducer",
    "UserError",
    "Workers",
    "distance",
    "inspect",
    "load",
    "recipes",
    "register",
    "sweep",
    "train",
]

_PLACES = {
    "Answer": "transduce.answers.answer",
    "Callback": "transduce.training.callbacks",
    "Constraints": "transduce.search.constraints.base",
    "Extras": "transduce.answers.request",
    "Output": "transduce.answers.answer",
    "Request": "transduce.answers.request",
    "RequestError": "transduce.errors",
    "Transducer": "transduce.transducer",
    "UserError": "transduce.errors",
    "Workers": "transduce.compute.workers",
    "distance": "transduce.metrics.edit_distance",
    "load": "transduce.runs.loading",
    "register": "transduce.names",
    "sweep": "transduce.sweeps.sweep",
    "train": "transduce.api",
}

_PACKAGES = ("inspect", "recipes")  # used by their own names, as in transduce.inspect.record


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"transduce.{name}")
    if name not in _PLACES:
        raise AttributeError(f"module 'transduce' has no attribute {name!r}")
    return getattr(importlib.import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

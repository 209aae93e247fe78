"""Answers texts with a model from one file, without PyTorch and without NumPy.

from transduce_engine import ENGLISH, load
load(ENGLISH)("knowledge")    # or the path of a file of your own
"""

from pathlib import Path

from transduce_engine.engine import Answer, Ended, Engine, Output, Running, Wanted, load
from transduce_engine.library import EngineError, MissingLibraryError
from transduce_engine.signals import Picture, Recording, Steps

ENGLISH = Path(__file__).with_name("english.engine")  # pronounces English words; docs/engine.md says how it was made

__all__ = [
    "ENGLISH",
    "Answer",
    "Ended",
    "Engine",
    "EngineError",
    "MissingLibraryError",
    "Output",
    "Picture",
    "Recording",
    "Running",
    "Steps",
    "Wanted",
    "load",
]
__version__ = "0.2.0"

"""Answers texts with a model from one file, without PyTorch and without NumPy.

from transduce_engine import load
load("g2p.engine")("knowledge")
"""

from transduce_engine.engine import Answer, Engine, Output, Running, load
from transduce_engine.library import EngineError, MissingLibraryError

__all__ = ["Answer", "Engine", "EngineError", "MissingLibraryError", "Output", "Running", "load"]
__version__ = "0.2.0"

"""Inspection of models: hooks record their values, and the models have no code for it."""

from transduce.wings.looking.inspection.recording import record

__all__ = ["record"]

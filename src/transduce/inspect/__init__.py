"""Looking inside a model from outside: hooks record its values, and no model has code for it."""

from transduce.inspect.recording import record

__all__ = ["record"]

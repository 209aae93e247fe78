"""Spans that survive: parts of a source that the model does not read, and that the output has unchanged."""

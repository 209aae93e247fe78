"""Encoders: they turn a source into a ``Memory``."""

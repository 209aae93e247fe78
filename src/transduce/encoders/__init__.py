"""Encoders: a source in, a ``Memory`` out."""

"""Decoders: they start from a ``Memory`` and write token by token, or all tokens at once."""

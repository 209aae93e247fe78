"""Mixers: how the positions of one row see one another, in a layer of a Transformer."""

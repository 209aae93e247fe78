"""Mixers: the sublayers of a Transformer in which the positions of a row read each other."""

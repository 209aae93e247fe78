"""Phrase tables: phrase pairs of a word-aligned corpus, their probabilities and their reordering."""

"""Correction of running text, in which most words are right."""

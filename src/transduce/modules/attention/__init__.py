"""Attention: energies, one head and many, over a memory or within a row."""

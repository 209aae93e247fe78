"""Attention: energies, one head and many heads, to a memory or within a row."""

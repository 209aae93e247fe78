"""Odd behaviour of a trained model: counts and examples, on its own sources and on changed ones."""

"""Builds docs/results.md and the scores in recipes' headers from records."""

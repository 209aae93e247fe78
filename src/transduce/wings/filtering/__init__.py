"""Filters of training data: which pairs to leave out, and why."""

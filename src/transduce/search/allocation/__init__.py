"""Allocations: they choose which continuations stay in a beam. One allocation per file."""

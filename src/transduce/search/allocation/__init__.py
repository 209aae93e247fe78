"""Allocations choose which continuations stay in a beam. Each file has one allocation."""

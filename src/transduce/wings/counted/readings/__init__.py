"""Readings: the ways to segment a source into the units of a joint n-gram model, as a pruned lattice."""

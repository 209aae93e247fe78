"""Optimisers beside Adam and plain gradient descent: Muon."""

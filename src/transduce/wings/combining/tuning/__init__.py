"""Tuning of the weights of a phrase-based model's features, for a metric of its outputs."""

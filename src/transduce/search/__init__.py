"""Searches: hypotheses of each source row, best first. A search names the protocol of its models."""

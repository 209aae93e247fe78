"""Searches return the hypotheses of each source row, best first. Each search names the protocol of its models."""

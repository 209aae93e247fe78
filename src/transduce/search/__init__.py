"""Searches: for any autoregressive model, hypotheses of each source row, best first."""

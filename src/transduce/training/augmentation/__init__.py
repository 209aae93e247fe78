"""Signals made a little different in each epoch of training."""

"""Augmentation: random changes of the signals in each epoch of training."""

"""Convolutions whose kernels skip positions."""

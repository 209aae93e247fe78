"""Converts models for our own engine: a module for each family."""

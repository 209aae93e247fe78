"""Sweeps: train a grid of models on the same data, measure them in the same way, and show them in one table and
picture.
"""

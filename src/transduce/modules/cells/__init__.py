"""Recurrent cells: a state, and what a new input makes of it."""

"""Objectives: the losses that training minimises."""

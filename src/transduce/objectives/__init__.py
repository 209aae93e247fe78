"""Objectives: what training minimises."""

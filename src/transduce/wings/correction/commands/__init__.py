"""The command of correction."""

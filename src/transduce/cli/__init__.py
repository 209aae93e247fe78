"""The command line; ``app`` is where it begins."""

"""A trained run: its directory, its settings, data, tokenizers and checkpoints, and the runs that it comes from."""

"""Signals as sources: sound, pictures and clips. Each is a file, and its path is the source."""

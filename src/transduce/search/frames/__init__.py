"""Searches among the alignments of frames."""

"""Searches among the alignments of an output with frames."""

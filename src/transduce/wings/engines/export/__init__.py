"""Exports of trained runs: folders from which another engine predicts."""

"""Processors, devices, precisions and worker processes."""

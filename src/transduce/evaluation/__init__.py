"""Evaluates systems on the same examples: scores, confidence intervals, errors, calibration, significance."""

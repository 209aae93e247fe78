"""Records of figures: what was measured, with which command, settings, data and machine."""

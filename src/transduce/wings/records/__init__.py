"""Records of figures: the scores, with the command, settings, data and machine behind them."""

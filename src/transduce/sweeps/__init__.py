"""Models side by side: a grid of them trained on the same data, measured the same way, in one table and one picture."""

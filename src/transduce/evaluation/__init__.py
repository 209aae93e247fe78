"""Systems judged on the same examples: how good, how sure, on what, and which differences are real."""

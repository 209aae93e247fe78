"""Other toolkits' formats of models: which parameter, feature and setting of theirs is which of ours."""

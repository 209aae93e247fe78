"""``transduce vectors``: train, question and measure word vectors."""

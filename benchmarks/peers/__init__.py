"""How fast do other toolkits and this one train and predict, on the same data, vocabulary and weights, in turn?

``python -m peers`` in the folder benchmarks: ``__main__`` has the options.
"""

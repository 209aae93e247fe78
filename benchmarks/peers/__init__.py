"""How fast do other toolkits and this one train and predict, on the same data, vocabulary and weights, in turn?"""

"""Files of other programs as data: tables, translation memories, pronouncing dictionaries, archives of arrays."""

"""Files of other programs: as data (tables, memories, dictionaries, arrays), and as documents to translate."""

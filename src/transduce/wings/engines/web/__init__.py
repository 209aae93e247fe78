"""The engine in a browser: the files that ``transduce export RUN --to web`` writes, and what puts them together."""

"""``python benchmarks`` lists all benchmarks, and ``python benchmarks NAME`` measures: cases.py."""

from cases import main

main()

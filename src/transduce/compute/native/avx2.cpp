// The library for processors with AVX2: setup.py compiles this file with the flags for them.

#include "families.cpp"

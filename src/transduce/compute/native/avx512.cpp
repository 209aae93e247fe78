// The library for processors with AVX-512 and VNNI: setup.py compiles this file with the flags for them.

#include "families.cpp"

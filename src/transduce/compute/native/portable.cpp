// The library for any processor: setup.py compiles this file with the flags for them.

#include "families.cpp"

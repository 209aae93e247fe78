// The engine for processors with AVX2: setup.py and CMakeLists.txt compile this file with the flags for it.

#include "all.cpp"

// The engine for processors with AVX-512 and VNNI: setup.py and CMakeLists.txt compile this file with the flags for it.

#include "all.cpp"

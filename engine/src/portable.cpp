// The engine for any processor: setup.py and CMakeLists.txt compile this file with the flags for it.

#include "all.cpp"

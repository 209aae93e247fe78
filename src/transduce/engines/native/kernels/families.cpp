// All code of the library. A new family of models adds its file here.

#include "alignments.cpp"
#include "choice.cpp"
#include "convolution.cpp"
#include "edits.cpp"
#include "interface.cpp"
#include "matrix.cpp"
#include "readings.cpp"
#include "recurrent.cpp"
#include "team.cpp"
#include "training.cpp"
#include "transformer.cpp"

// Products of rows with packed matrices, and means of rows, for all families of models.
#ifndef TRANSDUCE_PRODUCTS_H
#define TRANSDUCE_PRODUCTS_H

#include "interface.h"
#include "matrix.h"

// y [rows, outputs] = activation(x [rows, inputs] W' + b). numbers.h lists the activations.
TRANSDUCE_PUBLIC int64_t transduce_multiply(
    const transduce::Matrix* matrix, const float* x, float* y, int64_t rows, int32_t activation);

// Without activation, for rows of `longest` positions: y [rows, longest, outputs] of x [rows, longest, inputs]. Computes only the
// first lengths[r] positions of row r, and writes zeros into the others.
TRANSDUCE_PUBLIC int64_t transduce_multiply_real(
    const transduce::Matrix* matrix, const float* x, float* y, const int64_t* lengths, int64_t rows, int64_t longest);

// The mean [rows, width] of the real positions of x [rows, longest, width]; zeros if there is none.
TRANSDUCE_PUBLIC void transduce_mean(
    const float* x, float* y, const int64_t* lengths, int64_t rows, int64_t longest, int64_t width);

#endif

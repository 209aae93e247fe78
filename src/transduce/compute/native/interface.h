// The plain C interface of the pieces that all families of models share: matrices, and what a function returns. Each
// family's own header declares its functions. engines/native declares the same structures for ctypes. Every pointer is
// the caller's memory, which must stay while it is used.
#ifndef TRANSDUCE_INTERFACE_H
#define TRANSDUCE_INTERFACE_H

#include <cstdint>
#include <exception>

#include "matrix.h"

#define TRANSDUCE_PUBLIC extern "C" __attribute__((visibility("default")))

// The version of the interface. Raise it with every change of a structure or of a function's arguments, here and in
// compute/library.py, which refuses a library of another version.
const int32_t VERSION = 2;

// What functions return: DONE or NO_MEMORY. Those that read tokens may also return NO_ROOM, or an id that is outside the
// vocabulary.
const int64_t DONE = INT64_MIN;
const int64_t NO_ROOM = INT64_MIN + 1;  // a position is beyond those that the model or its memory has
const int64_t NO_MEMORY = INT64_MIN + 2;

// C has no exceptions, so none may leave a function of the interface. If the system gives no memory, the function returns
// NO_MEMORY.
template <class Work>
static inline int64_t guarded(const Work& work) {
    try {
        return work();
    } catch (const std::exception&) {  // bad_alloc, or the length_error of a size that no memory has
        return NO_MEMORY;
    }
}

TRANSDUCE_PUBLIC int32_t transduce_version();

// The bytes of a structure of the interface, by its name in C++; -1 for another name.
TRANSDUCE_PUBLIC int64_t transduce_size_of(const char* name);

// The kinds of vector instructions that this processor and its system have: 1 AVX2 with FMA, 2 AVX-512 with VNNI.
TRANSDUCE_PUBLIC int32_t transduce_processor();

// Sets the number of threads that share the products of matrices, the caller included, in all of the process: 1 to 8
// (team.h). It is 1 until the first call. The results do not depend on it.
TRANSDUCE_PUBLIC void transduce_set_threads(int32_t threads);

// A packed copy of a matrix [outputs, inputs], or null if there is no memory. `bias` may be null. The caller frees it.
TRANSDUCE_PUBLIC transduce::Matrix* transduce_pack_integers(
    const int8_t* weight, const float* scale, const float* bias, int32_t outputs, int32_t inputs);
TRANSDUCE_PUBLIC transduce::Matrix* transduce_pack_floats(
    const float* weight, const float* bias, int32_t outputs, int32_t inputs);
TRANSDUCE_PUBLIC void transduce_free(transduce::Matrix* matrix);

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

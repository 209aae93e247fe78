// The plain C interface that all parts of the library share: what a function returns, and what the processor has. Each
// part's own header declares its functions. Every pointer is the caller's memory, which must stay while it is used.
#ifndef TRANSDUCE_INTERFACE_H
#define TRANSDUCE_INTERFACE_H

#include <cstdint>
#include <exception>

#define TRANSDUCE_PUBLIC extern "C" __attribute__((visibility("default")))

// The version of the interface. Raise it with every change of a structure or of a function's arguments, here and in
// compute/library.py, which refuses a library of another version.
const int32_t VERSION = 3;

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

// Sets the number of threads that share large pieces of work, the caller included, in all of the process: 1 to 8 (team.h). It is 1 until the first call. The results do not depend on it.
TRANSDUCE_PUBLIC void transduce_set_threads(int32_t threads);

#endif

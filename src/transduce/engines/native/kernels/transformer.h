// The plain C interface: a Transformer's encoder, the steps of its decoder, and its matrices. engines/native/library.py
// declares the same structures for ctypes. Every pointer is the caller's memory, which must stay while it is used.
//
// Letters: W width, H heads, D = W / H, L layers of the decoder, B sources, K places of hypotheses of a source, N rows of
// a step (N / B adjacent rows for each source), S positions of the longest source, C capacity in target positions.
//
// Memory layout of a search, float32 unless stated:
//
//     memory [B, S, L, 2, W]       the encoder's states as keys and values of each decoder layer, projected once
//     past   [B, K, C, L, 2, W]    keys and values of the target positions so far
//     origin [N, C] int32          in which place k of its source each position of a row's past is stored
//     place  [N] int64             how many positions each row has read
//
// A row writes position t into past[b][n % (N / B)][t] and notes that place in origin[n][t]. If a beam reorders its
// rows, it moves only `origin`: the keys and values stay where they are.
#ifndef TRANSDUCE_TRANSFORMER_H
#define TRANSDUCE_TRANSFORMER_H

#include <cstdint>

#include "matrix.h"

#define TRANSDUCE_PUBLIC extern "C" __attribute__((visibility("default")))

extern "C" {

struct Norm {
    const float *weight, *bias;
};

// One layer. `query` and `read_out` belong to the attention to the memory; an encoder's layer has neither.
struct Layer {
    Norm mixer_norm, memory_norm, feedforward_norm;
    const transduce::Matrix *project, *out, *query, *read_out, *widen, *narrow;
};

// An encoder or a decoder. `positions` is [most_positions, W]. `pre_norm` is 1 if the norms stand before the sublayers;
// then `final_norm` is the last one.
struct Stack {
    int32_t width, heads, count, vocabulary, most_positions, pre_norm, activation;
    float embedding_scale, eps;
    const float *embedding, *positions;
    Norm final_norm;
    const Layer* layers;
};

// What a step of a decoder reads and writes. `outputs` is [N, W].
struct Step {
    int64_t rows, sources, places, capacity, longest;  // N, B, K, C, S
    const int64_t *tokens, *place, *lengths;           // [N], [N], [B]
    const float* memory;
    float *past, *outputs;
    int32_t* origin;
};
}

// The kinds of vector instructions that this processor and its system have: 1 AVX2 with FMA, 2 AVX-512 with VNNI.
TRANSDUCE_PUBLIC int32_t transduce_processor();

// A packed copy of a matrix [outputs, inputs]. `bias` may be null. The caller frees it.
TRANSDUCE_PUBLIC transduce::Matrix* transduce_pack_integers(
    const int8_t* weight, const float* scale, const float* bias, int32_t outputs, int32_t inputs);
TRANSDUCE_PUBLIC transduce::Matrix* transduce_pack_floats(
    const float* weight, const float* bias, int32_t outputs, int32_t inputs);
TRANSDUCE_PUBLIC void transduce_free(transduce::Matrix* matrix);
TRANSDUCE_PUBLIC void transduce_multiply(const transduce::Matrix* matrix, const float* x, float* y, int64_t rows);

// What the two functions below return: DONE, NO_ROOM, or an id that is outside the vocabulary.
const int64_t DONE = INT64_MIN;
const int64_t NO_ROOM = INT64_MIN + 1;  // a position is beyond `most_positions`, or beyond the capacity of `past`

// Encodes `sources` rows of `longest` ids, of which the first lengths[b] are real, and projects their states with the
// matrix `project` to memory [B, S, outputs of `project`]. Positions past the end of a row are zeros.
TRANSDUCE_PUBLIC int64_t transduce_encode(
    const Stack* encoder, const transduce::Matrix* project, const int64_t* ids, const int64_t* lengths, int64_t sources,
    int64_t longest, float* memory);

// Reads one token in each row.
TRANSDUCE_PUBLIC int64_t transduce_step(const Stack* decoder, const Step* step);

#endif

// The plain C interface of ConvS2S (Gehring et al. 2017): its encoder, and the steps of its decoder.
// wings/engines/native/convolution.py declares the same structures for ctypes.
//
// Letters: E width of embeddings and of the memory, D width of the layers, P = kernel - 1, L layers of the decoder, B
// sources, N rows of a step (N / B adjacent rows for each source), S positions of the longest source.
//
// Memory layout of a search, float32 unless stated:
//
//     keys, values [B, S, E]  those of a source's attention, the same for all layers
//     past [N, L, P, D]       the last inputs of each layer's kernel, zeros before the first position
//     place [N] int64         how many positions each row has read
//
// A step reads `past` and writes `next`: the state before it stays valid.
#ifndef TRANSDUCE_CONVOLUTION_H
#define TRANSDUCE_CONVOLUTION_H

#include <cstdint>

#include "interface.h"
#include "layers.h"

extern "C" {

// One layer. `convolution` maps a window of `kernel` positions [kernel, D] to the two halves of a gated linear unit.
// `query` and `out` belong to the attention to the memory. They are null in an encoder and in a language model.
struct ConvolutionLayer {
    const transduce::Matrix *convolution, *query, *out;
};

// An encoder or a decoder. `widen` maps E to D, `narrow` D to E.
struct ConvolutionStack {
    int32_t width, kernel, count;
    Embedding embedding;
    const transduce::Matrix *widen, *narrow;
    const ConvolutionLayer* layers;
};

// What a step of a decoder reads and writes. `outputs` is [N, E].
struct ConvolutionStep {
    int64_t rows, sources, longest;           // N, B, S
    const int64_t *tokens, *place, *lengths;  // [N], [N], [B]
    const float *keys, *values, *past;
    float *next, *outputs;
};
}

// Encodes `sources` rows of `longest` ids, of which the first lengths[b] are real. Positions of `states` and
// `values` [B, S, E] past the end of a row are zeros. Both functions return DONE, NO_ROOM or an unknown id.
TRANSDUCE_PUBLIC int64_t transduce_convolution_encode(const ConvolutionStack* encoder, const int64_t* ids,
    const int64_t* lengths, int64_t sources, int64_t longest, float* states, float* values);

// Reads one token in each row.
TRANSDUCE_PUBLIC int64_t transduce_convolution_step(const ConvolutionStack* decoder, const ConvolutionStep* step);

#endif

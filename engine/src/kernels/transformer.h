// A Transformer's encoder, the steps of its decoder, and a decoder that writes all positions at once.
// wings/engines/native/transformer.py declares the same structures.
//
// Letters: W width, H heads, D = W / H, L layers of the decoder, B sources, K places of hypotheses of a source, N rows of
// a step (N / B adjacent rows for each source), S positions of the longest source, T of the longest row, C capacity in
// target positions.
//
// Memory layout of a search, float32 unless stated:
//
//     states [S, L, 2, W]          of a source: the encoder's states as keys and values of each decoder layer, projected once
//     past   [K, C, L, 2, W]       of a source: keys and values of the target positions so far
//     origin [N, C] int32          in which place k of its source each position of a row's past is stored
//     place  [N] int64             how many positions each row has read
//
// A row writes position t into past[n % (N / B)][t] of its source and notes that place in origin[n][t]. If a beam reorders
// its rows, it moves only `origin`: the keys and values stay where they are. Each source has memory of its own, so sources
// enter and leave a batch without moving it. C may differ between the sources; that of `origin` is the largest.
#ifndef TRANSDUCE_TRANSFORMER_H
#define TRANSDUCE_TRANSFORMER_H

#include "layers.h"

extern "C" {

// Relative positions of self-attention, of heads of D numbers; null pointers if there are none. A key at the distance s - t
// from the query at t has the index min(max(s - t, -far), ahead) + far.
struct Relative {
    int32_t far, ahead;
    const float* turns;          // rotary: [positions, 2, D / 2], cosines and sines
    const float* bias;           // T5 and ALiBi: [H, far + 1 + ahead]
    const float *keys, *values;  // Shaw: [far + 1 + ahead, D]
};

// One layer. `query` and `read_out` belong to the attention to the memory. The layers of an encoder and of a language model
// have neither.
//
// A layer with a `kernel` has a lightweight or dynamic convolution (Wu et al. 2019) in place of self-attention. `project`
// then gives the two halves of a gated linear unit. The weights of the kernels [H, kernel] are `weights`, or the softmax
// of the outputs of `predict`. The decoder keeps the gated inputs in place of keys, and no values.
struct TransformerLayer {
    Norm mixer_norm, memory_norm, feedforward_norm;
    Relative relative;
    int32_t kernel;
    const float* weights;
    const transduce::Matrix *predict, *project, *out, *query, *read_out, *widen, *narrow;
};

// An encoder or a decoder. `pre_norm` is 1 if the norms stand before the sublayers; then `final_norm` is the last one.
// `gated` is 1 if `widen` gives a gate and its input, and the feed-forward network is narrow(activation(gate) * input).
struct TransformerStack {
    Embedding embedding;
    int32_t heads, count, pre_norm, gated, activation;
    float eps;
    Norm final_norm;
    const TransformerLayer* layers;
};

// What a decoder reads of a source: `length` states, and the past of its rows. Without steps there is no past.
struct TransformerSource {
    int64_t length;
    const float* states;
    float* past;
    int64_t capacity;  // C
};

struct TransformerMemory {
    int64_t sources, longest;  // B, S
    const TransformerSource* of;
};

// What a step of a decoder reads and writes. `outputs` is [N, W].
struct TransformerStep {
    int64_t rows, capacity;         // N, C
    const int64_t *tokens, *place;  // [N], [N]
    TransformerMemory memory;
    float* outputs;
    int32_t* origin;
};
}

// Maps N rows of `longest` ids, of which the first lengths[n] are real, to states [N, T, W]: all positions at once, each of
// which reads its whole row. Positions past the end of a row are zeros. An encoder has no `memory` (null). With one, the
// stack is a decoder whose layers also read the memory of their row's source, and an id stands for a place of the row.
TRANSDUCE_PUBLIC int64_t transduce_transformer_encode(const TransformerStack* stack, const int64_t* ids, const int64_t* lengths,
    int64_t rows, int64_t longest, const TransformerMemory* memory, float* states);

// Reads one token in each row.
TRANSDUCE_PUBLIC int64_t transduce_transformer_step(const TransformerStack* decoder, const TransformerStep* step);

#endif

// Recurrent networks: encoders of stacked cells in one direction or both, and the steps of a decoder with or without
// attention. wings/engines/native/recurrent.py declares the same structures.
//
// Letters: B sources, N rows of a step (N / B adjacent rows for each source), S positions of the longest source, D inputs
// of a cell, W its width, G the width of its gates, E width of an encoder's states, F width of all states of a stack,
// K width of a key, M width of a value.
//
// A cell's state has `leaves` vectors of W numbers: of an LSTM h and c. The state of a stack [N, F] has the states of its
// cells one after the other, the lowest first; of an encoder, a layer's forward cell comes before its backward one. With
// input feeding, a decoder's last features [N, W] follow. A step writes the new state elsewhere, so a beam may keep and
// reorder states as it likes.
#ifndef TRANSDUCE_RECURRENT_H
#define TRANSDUCE_RECURRENT_H

#include "layers.h"

extern "C" {

// kind 0: LSTM; gates i, f, g, o. `peepholes` [3, W] (of i, f, o) or null.
// kind 1: GRU with the reset gate after the product; gates r, z, n.
// kind 2, 3: the simple recurrent network with tanh, sigmoid.
// kind 4: SSRU; gates f, x; it has no matrix `recurrent`.
// `input` [G, D] and `recurrent` [G, W] have the biases. An encoder's layer has no cell where `input` is null.
struct RecurrentCell {
    int32_t kind, width;
    const transduce::Matrix *input, *recurrent;
    const float* peepholes;
};

// `cells` has two cells for each of `count` layers: forward and backward. `residual` is 1 if the input of each layer but
// the first is added to its output.
struct RecurrentEncoder {
    Embedding embedding;
    int32_t count, residual;
    const RecurrentCell* cells;
};

// `cells` has `count` cells. `wiring` is 0 plain, 1 Bahdanau, 2 Luong. `second` maps what the lowest cell reads beside
// the embedding to its gates: Bahdanau's context, or with input feeding the last features; otherwise null. `mix` gives
// the features, which tanh follows. `query` maps a query to K numbers, or is null. With `score` [K], the energy is
// score . tanh(query + key); if it is null, the energy is query . key * `scale`.
struct RecurrentDecoder {
    Embedding embedding;
    int32_t count, residual, wiring, key_width, value_width;
    float scale;
    const float* score;
    const transduce::Matrix *second, *mix, *query;
    const RecurrentCell* cells;
};

// What a step reads and writes: `keys` [B, S, K], `values` [B, S, M], `state` and `next` [N, F], `outputs` [N, W].
struct RecurrentStep {
    int64_t rows, sources, longest, state_width;  // N, B, S, F
    const int64_t *tokens, *lengths;              // [N], [B]
    const float *keys, *values, *state;
    float *next, *outputs;
};
}

// Encodes `sources` rows of `longest` ids, of which the first lengths[b] are real, to states [B, S, E], zeros past the end
// of a row, and to `summary` [B, F]: the state of each cell after the last position that it reads.
TRANSDUCE_PUBLIC int64_t transduce_recurrent_encode(const RecurrentEncoder* encoder, const int64_t* ids, const int64_t* lengths,
    int64_t sources, int64_t longest, float* states, float* summary);

// The same for vectors [B, longest, width of the embedding], which the encoder reads in place of ids.
TRANSDUCE_PUBLIC int64_t transduce_recurrent_encode_vectors(const RecurrentEncoder* encoder, const float* vectors,
    const int64_t* lengths, int64_t sources, int64_t longest, float* states, float* summary);

// Reads one token in each row.
TRANSDUCE_PUBLIC int64_t transduce_recurrent_step(const RecurrentDecoder* decoder, const RecurrentStep* step);

#endif

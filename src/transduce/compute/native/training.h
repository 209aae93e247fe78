// What training computes faster here than as PyTorch's operators: attention with dropout, dropout, and the cross-entropy
// of a large vocabulary, each with its gradient. Numbers are float32 or bfloat16; everything is computed in float32.
//
// Each of PyTorch's operators reads and writes all numbers once, and there are a dozen of them. Here one pair of a row and
// a head stays in the cache from the first product to the last.
#ifndef TRANSDUCE_TRAINING_H
#define TRANSDUCE_TRAINING_H

#include <cstdint>

#include "interface.h"

// Dropout: element j of row r stays if a number of 32 bits, which only (seed, r, j) decide, is at least `dropped`. What
// stays is multiplied by `scale`. Nothing is dropped if `dropped` is 0.
struct Dropped {
    uint64_t seed;
    uint32_t dropped;
    float scale;
};

// Vectors [rows, heads, places, features]: strides count numbers, and features lie side by side.
struct Vectors {
    void* data;
    int64_t row, head, place;
};

// softmax(scale q k' + bias) v for every row and head. `bias` is float32, with a stride of 1 along the keys; a number
// below -1e29 bars a key. `weights` [rows, heads, queries, keys, rounded up to a multiple of 16] in float32 receives the
// softmax, before dropout.
struct Attention {
    int64_t rows, heads, queries, keys, features;
    int32_t halves;   // 1: the vectors are bfloat16; 0: float32
    int32_t threads;  // of PyTorch's own (transduce_set_parallel)
    float scale;
    Vectors query, key, value, context;
    const float* bias;
    int64_t bias_row, bias_head, bias_query;
    float* weights;
    Dropped dropped;
};

// The address of GOMP_parallel in PyTorch's own OpenMP. Until the first call, one thread computes. Sharing PyTorch's threads
// leaves no others that look for work on the same cores.
TRANSDUCE_PUBLIC void transduce_set_parallel(void* parallel);

// Writes `context` and `weights`.
TRANSDUCE_PUBLIC int64_t transduce_attend(const Attention* attention);

// Reads the gradient of the context from `context`, and writes those of the queries, keys and values.
TRANSDUCE_PUBLIC int64_t transduce_attend_backward(
    const Attention* attention, const Vectors* query, const Vectors* key, const Vectors* value);

// `count` numbers, float32 or bfloat16.
struct Numbers {
    void* data;
    int32_t halves;  // 1: bfloat16
};

// y = dropout(x). If `base` is not null, y = base + dropout(x), as in a residual connection.
TRANSDUCE_PUBLIC void transduce_drop(
    const Numbers* x, const Numbers* base, const Numbers* y, int64_t count, int32_t threads, const Dropped* dropped);

// y = dropout(relu(x)), of one type.
TRANSDUCE_PUBLIC void transduce_drop_rectified(
    const Numbers* x, const Numbers* y, int64_t count, int32_t threads, const Dropped* dropped);

// The gradient `to` of x, by the gradient of y: where y is 0, it is 0 too, for either reason. All have one type.
TRANSDUCE_PUBLIC void transduce_drop_rectified_backward(
    const Numbers* gradient, const Numbers* y, const Numbers* to, int64_t count, int32_t threads, const Dropped* dropped);

// For `rows` of `logits` [rows, words] and their targets: `losses` [rows] receives -log p(target), `smooth` [rows] the
// mean of -log p over all words. `gradient`, of the type of the logits, receives that of (1 - smoothing) losses +
// smoothing smooth: p - (1 - smoothing) [word = target] - smoothing / words.
TRANSDUCE_PUBLIC int64_t transduce_cross_entropy(const Numbers* logits, const int64_t* targets, int64_t rows, int64_t words,
    float smoothing, int32_t threads, const Numbers* gradient, double* losses, double* smooth);

#endif

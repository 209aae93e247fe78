// Attention of one query to positions whose keys and values stand anywhere in memory.
//
// `key(s)` and `value(s)` return the address of the key and of the value of position s, all heads. `energy` is memory for
// [heads, count]. The heads are the inner loop, because a position's key is one piece of memory.
#ifndef TRANSDUCE_ATTENTION_H
#define TRANSDUCE_ATTENTION_H

#include <algorithm>

#include "numbers.h"

namespace transduce {

// `heads` heads of `width` numbers each.
struct Heads {
    int count, width;
};

// The products of a query with all keys, times `scale`.
template <class Key>
static inline void dot_energies(const Heads& heads, const float* query, float scale, int count, float* energy, Key key) {
    for (int s = 0; s < count; ++s) {
        const float* of_all_heads = key(s);
        for (int h = 0; h < heads.count; ++h)
            energy[h * count + s] = dot(query + h * heads.width, of_all_heads + h * heads.width, heads.width) * scale;
    }
}

// The mean of the values, weighted by the softmax of the energies, which become these weights. Zeros if there is none.
template <class Value>
static inline void average(const Heads& heads, float* energy, int count, float* context, Value value) {
    std::fill(context, context + heads.count * heads.width, 0.0f);
    if (count == 0) return;  // a source without tokens
    for (int h = 0; h < heads.count; ++h) softmax(energy + h * count, count);
    for (int s = 0; s < count; ++s) {
        const float* of_all_heads = value(s);
        for (int h = 0; h < heads.count; ++h)
            add_scaled(context + h * heads.width, of_all_heads + h * heads.width, energy[h * count + s], heads.width);
    }
}

}  // namespace transduce

#endif

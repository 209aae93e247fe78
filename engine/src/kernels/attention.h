// Attention of one query to positions whose keys and values stand anywhere in memory.
//
// `key(s)` and `value(s)` return the address of the key and of the value of position s, all heads. `energy` is memory for
// [heads, count].
#ifndef TRANSDUCE_ATTENTION_H
#define TRANSDUCE_ATTENTION_H

#include <algorithm>

#include "numbers.h"

namespace transduce {

// `heads` heads of `width` numbers each.
struct Heads {
    int count, width;
};

const int PARTS = SIXTEEN / AT_A_TIME;  // registers of 16 numbers

static inline Register load_register(const float* at) {
    Register found;
    std::memcpy(&found, at, sizeof found);
    return found;
}

// The products of a head of C * 16 numbers of a query with the same head of all keys, times `scale`. The query stays in
// registers. The additions are those of `dot`, in the same order.
template <int C, class Key>
static inline void dot_head(const float* query, float scale, int count, float* energy, Key key) {
    Register own[C * PARTS];
    for (int c = 0; c < C * PARTS; ++c) own[c] = load_register(query + AT_A_TIME * c);
    for (int s = 0; s < count; ++s) {
        const float* other = key(s);
        Register parts[PARTS] = {};
        for (int c = 0; c < C * PARTS; ++c) parts[c % PARTS] += own[c] * load_register(other + AT_A_TIME * c);
        Sixteen of_all;
        std::memcpy(&of_all, parts, sizeof of_all);
        energy[s] = sum(of_all) * scale;
    }
}

// The products of a query with all keys, times `scale`.
template <class Key>
static inline void dot_energies(const Heads& heads, const float* query, float scale, int count, float* energy, Key key) {
    for (int h = 0; h < heads.count; ++h, energy += count) {
        const int at = h * heads.width;
        const auto own = [=](int s) { return key(s) + at; };
        if (heads.width == 4 * SIXTEEN)
            dot_head<4>(query + at, scale, count, energy, own);
        else if (heads.width == 2 * SIXTEEN)
            dot_head<2>(query + at, scale, count, energy, own);
        else
            for (int s = 0; s < count; ++s) energy[s] = dot(query + at, own(s), heads.width) * scale;
    }
}

// Adds 32 numbers of all values, weighted.
template <class Value>
static inline void add_weighted(const float* weights, int count, float* context, Value value) {
    Register total[2 * PARTS];
    for (int c = 0; c < 2 * PARTS; ++c) total[c] = load_register(context + AT_A_TIME * c);
    for (int s = 0; s < count; ++s) {
        const float* other = value(s);
        for (int c = 0; c < 2 * PARTS; ++c) total[c] += weights[s] * load_register(other + AT_A_TIME * c);
    }
    std::memcpy(context, total, sizeof total);
}

// The mean of the values, weighted by the softmax of the energies, which become these weights. Zeros if there is none.
template <class Value>
static inline void average(const Heads& heads, float* energy, int count, float* context, Value value) {
    std::fill(context, context + heads.count * heads.width, 0.0f);
    if (count == 0) return;  // a source without tokens
    softmax(energy, heads.count, count);
    for (int h = 0; h < heads.count; ++h) {
        const float* weights = energy + h * count;
        int i = h * heads.width;
        const int end = i + heads.width;
        for (; i + 2 * SIXTEEN <= end; i += 2 * SIXTEEN)
            add_weighted(weights, count, context + i, [=](int s) { return value(s) + i; });
        for (int s = 0; s < count && i < end; ++s) add_scaled(context + i, value(s) + i, weights[s], end - i);
    }
}

}  // namespace transduce

#endif

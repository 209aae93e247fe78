// Layers that several families of models have: embeddings and norms. Their structures belong to the C interface.
#ifndef TRANSDUCE_LAYERS_H
#define TRANSDUCE_LAYERS_H

#include <algorithm>
#include <vector>

#include "products.h"
#include "numbers.h"

extern "C" {

// A layer norm, or without a bias an RMS norm.
struct Norm {
    const float *weight, *bias;
};

// The vector of an id is vectors[id] * scale + positions[place]. `positions` is [most_positions, width], or null.
struct Embedding {
    int32_t width, vocabulary, most_positions;
    float scale;
    const float *vectors, *positions;
};
}

namespace transduce {

const int BLOCK = 64;  // rows that go through all layers together, so that their activations stay in the second cache

// Memory of a call grows only. Each thread keeps its own, because fresh memory costs a tenth of a step.
static inline void grow(std::vector<float>& memory, size_t size) {
    if (memory.size() < size) memory.resize(size);
}

static inline bool is_known(const Embedding& embedding, int64_t id) { return 0 <= id && id < embedding.vocabulary; }

static inline void embed(const Embedding& embedding, int64_t id, int64_t place, float* x) {
    const float* vector = embedding.vectors + id * embedding.width;
    for (int i = 0; i < embedding.width; ++i) x[i] = vector[i] * embedding.scale;
    if (embedding.positions != nullptr) add(x, embedding.positions + place * embedding.width, embedding.width);
}

static inline void normalise(const Norm& norm, float eps, const float* from, float* to, int rows, int width) {
    for (int r = 0; r < rows; ++r) {
        const size_t at = static_cast<size_t>(r) * width;
        if (norm.bias == nullptr)
            rms_norm(from + at, to + at, norm.weight, eps, width);
        else
            layer_norm(from + at, to + at, norm.weight, norm.bias, eps, width);
    }
}

// The first of the ids of real positions that is outside the vocabulary, or DONE. `ids` is [rows, longest].
static inline int64_t find_unknown(
    const Embedding& embedding, const int64_t* ids, const int64_t* lengths, int64_t rows, int64_t longest) {
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t s = 0; s < lengths[r]; ++s)
            if (!is_known(embedding, ids[r * longest + s])) return ids[r * longest + s];
    return DONE;
}

// Sentences that go through an encoder together, one after the other without padding: rows first to last - 1.
struct Sentences {
    const int64_t *ids, *lengths;
    int64_t longest, first, last;
    int rows;  // all positions of these sentences

    Sentences(const int64_t* ids, const int64_t* lengths, int64_t longest)
        : ids(ids), lengths(lengths), longest(longest), first(0), last(0), rows(0) {}

    // Goes on to the next sentences: as many as BLOCK rows hold, but at least one. False if none is left.
    bool next(int64_t sources) {
        first = last;
        rows = 0;
        while (last < sources && (rows == 0 || rows + lengths[last] <= BLOCK)) rows += static_cast<int>(lengths[last++]);
        return first < sources;
    }

    // The number of rows that `next` gives at most.
    int most() const { return static_cast<int>(longest > BLOCK ? longest : BLOCK); }

    void embed(const Embedding& embedding, float* x) const {
        for (int64_t b = first; b < last; ++b)
            for (int64_t s = 0; s < lengths[b]; ++s, x += embedding.width)
                transduce::embed(embedding, ids[b * longest + s], s, x);
    }

    // Copies their rows [rows, width] to [sources, longest, width], with zeros at padding.
    void scatter(const float* rows_of_all, int width, float* to) const {
        for (int64_t b = first; b < last; rows_of_all += lengths[b++] * width) {
            float* row = to + b * longest * width;
            std::copy(rows_of_all, rows_of_all + lengths[b] * width, row);
            std::fill(row + lengths[b] * width, row + longest * width, 0.0f);
        }
    }
};

}  // namespace transduce

#endif

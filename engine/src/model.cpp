// The functions that all families share. model.h explains them.

#include "model.h"

#include <limits>
#include <new>
#include <numeric>

#include "refusal.h"

namespace transduce {

Batch::Batch(const std::vector<const std::vector<int64_t>*>& rows) {
    for (const auto* row : rows) {
        lengths.push_back(static_cast<int64_t>(row->size()));
        longest = std::max(longest, lengths.back());
    }
    ids.assign(rows.size() * longest, 0);
    for (size_t b = 0; b < rows.size(); ++b) std::copy(rows[b]->begin(), rows[b]->end(), ids.begin() + b * longest);
}

Batch::Batch(std::vector<const Steps*> rows) : signals(std::move(rows)) {
    for (const Steps* row : signals) {
        lengths.push_back(row->length());
        longest = std::max(longest, lengths.back());
    }
    ids.assign(signals.size() * longest, PAD);
}

// A part of a list that has something of each source, or nothing.
template <class T>
static std::vector<T> part_of(const std::vector<T>& every, int64_t first, int64_t last) {
    return every.empty() ? every : std::vector<T>(every.begin() + first, every.begin() + last);
}

Batch Batch::part(int64_t first, int64_t last) const {
    Batch found = *this;
    found.lengths = part_of(lengths, first, last);
    found.longest = *std::max_element(found.lengths.begin(), found.lengths.end());
    found.ids = part_of(ids, first * longest, last * longest);
    resize_rows(found.ids, longest, found.longest);
    found.signals = part_of(signals, first, last);
    found.wanted = part_of(wanted, first, last);
    return found;
}

Memory Encoder::operator()(const Batch& batch) const {
    if (batch.signals.empty() == reads_signals())
        throw Refusal(reads_signals() ? "its sources are signals, and ids were given" : "its sources are no signals");
    Memory memory = encode(batch);
    memory.ids = batch.ids;
    if (memory.longest != batch.longest) memory.ids.assign(memory.sources() * memory.longest, PAD);
    return memory;
}

std::vector<float> of_real(const Matrix& matrix, const float* x, const std::vector<int64_t>& lengths, int64_t longest) {
    std::vector<float> y(lengths.size() * longest * matrix.outputs);
    check(transduce_multiply_real(&matrix, x, y.data(), lengths.data(), static_cast<int64_t>(lengths.size()), longest));
    return y;
}

void check(int64_t found) {
    if (found == DONE) return;
    if (found == NO_MEMORY) throw std::bad_alloc();
    if (found == NO_ROOM) throw Refusal("a text is longer than the positions that the model learned");
    throw Refusal("id " + std::to_string(found) + " is outside the vocabulary");
}

Pooling read_pooling(const Json& notes) { return static_cast<Pooling>(notes.choice("pooling", {"last", "max", "mean"})); }

int64_t pooled_width(Pooling pooling, const Encoded& sizes) { return pooling == LAST ? sizes.summary : sizes.width; }

std::vector<float> pooled_by(Pooling pooling, const Memory& memory) {
    if (pooling == LAST) return memory.summary;
    const int64_t B = memory.sources(), W = memory.width;
    std::vector<float> found(B * W, -std::numeric_limits<float>::infinity());
    if (pooling == MEAN) transduce_mean(memory.read(), found.data(), memory.lengths.data(), B, memory.longest, W);
    for (int64_t b = 0; b < B && pooling == MAXIMUM; ++b)
        for (int64_t s = 0; s < memory.lengths[b]; ++s)
            for (int64_t i = 0; i < W; ++i)
                found[b * W + i] = std::max(found[b * W + i], memory.read()[(b * memory.longest + s) * W + i]);
    return found;
}

std::vector<int64_t> rows_of(const std::vector<int64_t>& sources, int64_t each) {
    std::vector<int64_t> found;
    for (int64_t b : sources)
        for (int64_t k = 0; k < each; ++k) found.push_back(b * each + k);
    return found;
}

std::vector<int64_t> repeated(int64_t sources, int64_t hypotheses) {
    std::vector<int64_t> found(sources * hypotheses);
    for (size_t n = 0; n < found.size(); ++n) found[n] = static_cast<int64_t>(n) / hypotheses;
    return found;
}

}  // namespace transduce

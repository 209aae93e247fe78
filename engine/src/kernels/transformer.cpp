// A Transformer (Vaswani et al. 2017) that only predicts. transformer.h explains the memory layout.

#include "transformer.h"

#include "attention.h"

namespace transduce {

// Memory of a call for a block of rows.
struct TransformerScratch {
    std::vector<float> x, entered, projected, context, hidden, energy;
    std::vector<int64_t> source;  // of each row
    QuantisedRows quantised;

    static TransformerScratch& of(const TransformerStack& stack, int rows, int longest) {
        static thread_local TransformerScratch scratch;
        const size_t size = static_cast<size_t>(rows) * stack.embedding.width;
        int widest = 0;
        for (int l = 0; l < stack.count; ++l)
            for (const Matrix* each : {stack.layers[l].widen, stack.layers[l].predict})
                if (each != nullptr) widest = std::max(widest, each->outputs);
        grow(scratch.x, size);
        grow(scratch.entered, size);
        grow(scratch.projected, 3 * size);
        grow(scratch.context, size);
        grow(scratch.hidden, static_cast<size_t>(rows) * widest);
        grow(scratch.energy, static_cast<size_t>(stack.heads) * longest);
        return scratch;
    }
};

// The input of a sublayer: with pre-norm, the normalised rows.
static const float* enter(const TransformerStack& stack, const Norm& norm, int rows, TransformerScratch& scratch) {
    if (!stack.pre_norm) return scratch.x.data();
    normalise(norm, stack.eps, scratch.x.data(), scratch.entered.data(), rows, stack.embedding.width);
    return scratch.entered.data();
}

// Adds the result of a sublayer, which stands in `projected`; with post-norm, normalises the sum.
static void leave(const TransformerStack& stack, const Norm& norm, int rows, TransformerScratch& scratch) {
    const int W = stack.embedding.width;
    add(scratch.x.data(), scratch.projected.data(), rows * W);
    if (!stack.pre_norm) normalise(norm, stack.eps, scratch.x.data(), scratch.x.data(), rows, W);
}

// Turns rows [rows, 2, width] of gates and inputs to activation(gate) * input [rows, width], in the same memory.
static void apply_gates(float* x, int rows, int width, int activation) {
    float* to = x;
    for (int r = 0; r < rows; ++r, to += width) {
        float* from = x + static_cast<size_t>(r) * 2 * width;
        activate(from, width, activation);
        for (int i = 0; i < width; ++i) to[i] = from[i] * from[width + i];
    }
}

static void feed_forward(const TransformerStack& stack, const TransformerLayer& layer, int rows, TransformerScratch& scratch) {
    const float* entered = enter(stack, layer.feedforward_norm, rows, scratch);
    multiply(*layer.widen, entered, scratch.hidden.data(), rows, stack.gated ? NONE : stack.activation, scratch.quantised);
    if (stack.gated) apply_gates(scratch.hidden.data(), rows, layer.narrow->inputs, stack.activation);
    multiply(*layer.narrow, scratch.hidden.data(), scratch.projected.data(), rows, NONE, scratch.quantised);
    leave(stack, layer.feedforward_norm, rows, scratch);
}

static inline Heads heads_of(const TransformerStack& stack) { return {stack.heads, stack.embedding.width / stack.heads}; }

// The index of a key at s for a query at t. transformer.h explains it.
static inline int distance(const Relative& relative, int64_t s, int64_t t) {
    return static_cast<int>(std::min<int64_t>(std::max<int64_t>(s - t, -relative.far), relative.ahead)) + relative.far;
}

// Turns a query or a key at a position (Su et al. 2021): the halves of each head are the two sides of its planes.
static inline void turn(const Heads& heads, const Relative& relative, int64_t place, float* x) {
    const int half = heads.width / 2;
    const float* cosine = relative.turns + place * heads.width;
    const float* sine = cosine + half;
    for (int h = 0; h < heads.count; ++h, x += heads.width)
        for (int i = 0; i < half; ++i) {
            const float one = x[i], two = x[half + i];
            x[i] = one * cosine[i] - two * sine[i];
            x[half + i] = one * sine[i] + two * cosine[i];
        }
}

// Adds what the energies [heads, count] of a query at `place` have by the distances of the keys.
static inline void add_distances(
    const Heads& heads, const Relative& relative, int64_t place, const float* query, float scale, int count, float* energy) {
    for (int s = 0; s < count; ++s) {
        const int index = distance(relative, s, place), D = heads.width;
        for (int h = 0; h < heads.count; ++h)
            energy[h * count + s] += relative.keys != nullptr ? dot(query + h * D, relative.keys + index * D, D) * scale
                                                              : relative.bias[h * (relative.far + 1 + relative.ahead) + index];
    }
}

// Attention of one query at `place` to positions whose value stands W numbers after their key.
template <class Key>
static inline void attend(const TransformerStack& stack, const Relative& relative, int64_t place, const float* query,
    float* context, int count, float* energy, Key key) {
    const int W = stack.embedding.width;
    const Heads heads = heads_of(stack);
    const float scale = 1.0f / std::sqrt(static_cast<float>(heads.width));
    dot_energies(heads, query, scale, count, energy, key);
    if (relative.bias != nullptr || relative.keys != nullptr)
        add_distances(heads, relative, place, query, scale, count, energy);
    average(heads, energy, count, context, [=](int s) { return key(s) + W; });
    if (relative.values == nullptr) return;
    for (int s = 0; s < count; ++s)
        for (int h = 0; h < heads.count; ++h) {
            const float* value = relative.values + distance(relative, s, place) * heads.width;
            add_scaled(context + h * heads.width, value, energy[h * count + s], heads.width);
        }
}

const Relative NO_RELATIVE = {};  // of the attention to the memory

// Asks for the keys and values of some positions, which the next row reads: they are many, far from each other, and wait in the
// third cache or behind it.
template <class Key>
static inline void fetch(const TransformerStack& stack, int count, Key key) {
    for (int s = 0; s < count; ++s) {
        const float* at = key(s);
        for (int i = 0; i < 2 * stack.embedding.width; i += SIXTEEN) __builtin_prefetch(at + i, 0, 2);
    }
}

// The first half of a convolution that mixes positions: the gated inputs of all rows, to scratch.entered, and the weights
// of their kernels, to scratch.hidden if they are dynamic.
static void gate_rows(const TransformerStack& stack, const TransformerLayer& layer, int rows, TransformerScratch& scratch) {
    const size_t W = stack.embedding.width;
    const float* entered = enter(stack, layer.mixer_norm, rows, scratch);
    multiply(*layer.project, entered, scratch.projected.data(), rows, NONE, scratch.quantised);
    for (int r = 0; r < rows; ++r)
        gate(scratch.projected.data() + r * 2 * W, scratch.entered.data() + r * W, stack.embedding.width);
    if (layer.predict == nullptr) return;
    multiply(*layer.predict, scratch.entered.data(), scratch.hidden.data(), rows, NONE, scratch.quantised);
    for (int i = 0; i < rows * stack.heads; ++i)
        softmax(scratch.hidden.data() + static_cast<size_t>(i) * layer.kernel, layer.kernel);
}

// The second half: the sum of the positions first to first + kernel - 1 that are 0 to count - 1, with the weights of row
// r. `at(s)` returns the address of the gated input of position s.
template <class At>
static void mix_by_kernel(const TransformerStack& stack, const TransformerLayer& layer, const TransformerScratch& scratch,
    int r, int64_t first, int64_t count, float* context, At at) {
    const Heads heads = heads_of(stack);
    const float* dynamic = scratch.hidden.data() + static_cast<size_t>(r) * heads.count * layer.kernel;
    const float* weights = layer.predict == nullptr ? layer.weights : dynamic;
    std::fill(context, context + stack.embedding.width, 0.0f);
    for (int k = 0; k < layer.kernel; ++k) {
        if (first + k < 0 || first + k >= count) continue;
        const float* input = at(first + k);
        for (int h = 0; h < heads.count; ++h)
            add_scaled(context + h * heads.width, input + h * heads.width, weights[h * layer.kernel + k], heads.width);
    }
}

// Keys and values of one position, of all layers: the stride of `past` and of `memory`.
static inline size_t position_size(const TransformerStack& stack) {
    return static_cast<size_t>(stack.count) * 2 * stack.embedding.width;
}

// The attention of layer l to the memory. Row r reads the source scratch.source[r].
static void read_memory(
    const TransformerStack& stack, const TransformerMemory& memory, int l, int rows, TransformerScratch& scratch) {
    const size_t W = stack.embedding.width, size = position_size(stack);
    const TransformerLayer& layer = stack.layers[l];
    float *projected = scratch.projected.data(), *context = scratch.context.data();
    multiply(*layer.query, enter(stack, layer.memory_norm, rows, scratch), projected, rows, NONE, scratch.quantised);
    const auto key_of = [&](int64_t source) {
        const float* states = memory.of[source].states + l * 2 * W;
        return [=](int s) { return states + s * size; };
    };
    for (int r = 0; r < rows; ++r) {
        const int64_t source = scratch.source[r], next = scratch.source[std::min(r + 1, rows - 1)];
        if (next != source) fetch(stack, static_cast<int>(memory.of[next].length), key_of(next));
        const auto key = key_of(source);
        const int length = static_cast<int>(memory.of[source].length);
        attend(stack, NO_RELATIVE, 0, projected + r * W, context + r * W, length, scratch.energy.data(), key);
    }
    multiply(*layer.read_out, context, projected, rows, NONE, scratch.quantised);
    leave(stack, layer.memory_norm, rows, scratch);
}

// ---------------------------------------------------------------- all positions at once

// Self-attention of a whole sentence, whose queries, keys and values [length, 3, W] are `projected`.
static void attend_to_sentence(
    const TransformerStack& stack, const Relative& relative, float* projected, float* context, int length, float* energy) {
    const size_t W = stack.embedding.width;
    const auto key = [=](int s) { return projected + s * 3 * W + W; };
    for (int t = 0; relative.turns != nullptr && t < length; ++t)
        for (int part = 0; part < 2; ++part) turn(heads_of(stack), relative, t, projected + (t * 3 + part) * W);
    for (int t = 0; t < length; ++t) attend(stack, relative, t, projected + t * 3 * W, context + t * W, length, energy, key);
}

// Maps the rows of all sentences to scratch.context.
static void mix_sentences(
    const TransformerStack& stack, const TransformerLayer& layer, const Sentences& some, TransformerScratch& scratch) {
    const size_t W = stack.embedding.width;
    if (layer.kernel)
        gate_rows(stack, layer, some.rows, scratch);
    else
        multiply(*layer.project, enter(stack, layer.mixer_norm, some.rows, scratch), scratch.projected.data(), some.rows, NONE,
            scratch.quantised);
    int at = 0;
    for (int64_t b = some.first; b < some.last; at += static_cast<int>(some.lengths[b++])) {
        const int length = static_cast<int>(some.lengths[b]);
        float* context = scratch.context.data() + at * W;
        if (!layer.kernel) {
            float* projected = scratch.projected.data() + at * 3 * W;
            attend_to_sentence(stack, layer.relative, projected, context, length, scratch.energy.data());
            continue;
        }
        const float* gated = scratch.entered.data() + at * W;
        for (int t = 0; t < length; ++t)
            mix_by_kernel(stack, layer, scratch, at + t, t - layer.kernel / 2, length, context + t * W,
                [=](int64_t s) { return gated + s * W; });
    }
}

// The source of each row, if each source has `each` sentences, one after the other.
static void find_sources(const Sentences& some, int64_t each, TransformerScratch& scratch) {
    scratch.source.clear();
    for (int64_t n = some.first; n < some.last; ++n) scratch.source.insert(scratch.source.end(), some.lengths[n], n / each);
}

static void encode(const TransformerStack& stack, const Sentences& some, const TransformerMemory* memory,
    TransformerScratch& scratch, float* states) {
    const int W = stack.embedding.width, rows = some.rows;
    some.embed(stack.embedding, scratch.x.data());
    for (int l = 0; l < stack.count; ++l) {
        const TransformerLayer& layer = stack.layers[l];
        mix_sentences(stack, layer, some, scratch);
        multiply(*layer.out, scratch.context.data(), scratch.projected.data(), rows, NONE, scratch.quantised);
        leave(stack, layer.mixer_norm, rows, scratch);
        if (memory != nullptr) read_memory(stack, *memory, l, rows, scratch);
        feed_forward(stack, layer, rows, scratch);
    }
    float* x = scratch.x.data();
    if (stack.pre_norm) normalise(stack.final_norm, stack.eps, x, x, rows, W);
    some.scatter(x, W, states);
}

// ---------------------------------------------------------------- one position after the other

// Where the positions that a row has read stand in memory, of layer l. `key(t)` returns the address of the key of t.
struct Past {
    float* source;
    const int32_t* origin;
    size_t place_size, size;

    float* key(int64_t t) const { return source + origin[t] * place_size + t * size; }

    static Past read(const TransformerStack& stack, const TransformerStep& step, int l, int64_t n) {
        const TransformerSource& source = step.memory.of[n / (step.rows / step.memory.sources)];
        const size_t size = position_size(stack), place_size = source.capacity * size;
        float* own = source.past + static_cast<size_t>(l) * 2 * stack.embedding.width;
        return {own, step.origin + n * step.capacity, place_size, size};
    }

    // Notes that row n stores its next position in its own place.
    static Past of(const TransformerStack& stack, const TransformerStep& step, int l, int64_t n) {
        step.origin[n * step.capacity + step.place[n]] = static_cast<int32_t>(n % (step.rows / step.memory.sources));
        return read(stack, step, l, n);
    }
};

static void attend_to_past(const TransformerStack& stack, const TransformerStep& step, int l, int64_t n, float* projected,
    float* context, float* energy) {
    const int W = stack.embedding.width;
    const Relative& relative = stack.layers[l].relative;
    const int64_t place = step.place[n];
    for (int part = 0; relative.turns != nullptr && part < 2; ++part)
        turn(heads_of(stack), relative, place, projected + part * W);
    const Past past = Past::of(stack, step, l, n);
    std::copy(projected + W, projected + 3 * W, past.key(place));
    const auto key = [=](int t) -> const float* { return past.key(t); };
    attend(stack, relative, place, projected, context, static_cast<int>(place) + 1, energy, key);
}

static void mix_past(
    const TransformerStack& stack, const TransformerStep& step, int l, int64_t first, int r, TransformerScratch& scratch) {
    const size_t W = stack.embedding.width;
    const int64_t place = step.place[first + r];
    const TransformerLayer& layer = stack.layers[l];
    const Past past = Past::of(stack, step, l, first + r);
    const float* gated = scratch.entered.data() + r * W;
    std::copy(gated, gated + W, past.key(place));
    mix_by_kernel(stack, layer, scratch, r, place + 1 - layer.kernel, place + 1, scratch.context.data() + r * W,
        [=](int64_t t) -> const float* { return past.key(t); });
}

static void decode(
    const TransformerStack& stack, const TransformerStep& step, int64_t first, int rows, TransformerScratch& scratch) {
    const int W = stack.embedding.width;
    float *projected = scratch.projected.data(), *context = scratch.context.data(), *energy = scratch.energy.data();
    scratch.source.resize(rows);
    for (int r = 0; r < rows; ++r) {
        scratch.source[r] = (first + r) / (step.rows / step.memory.sources);
        embed(stack.embedding, step.tokens[first + r], step.place[first + r], scratch.x.data() + static_cast<size_t>(r) * W);
    }
    for (int l = 0; l < stack.count; ++l) {
        const TransformerLayer& layer = stack.layers[l];
        if (layer.kernel)
            gate_rows(stack, layer, rows, scratch);
        else
            multiply(*layer.project, enter(stack, layer.mixer_norm, rows, scratch), projected, rows, NONE, scratch.quantised);
        for (int r = 0; r < rows; ++r)
            if (layer.kernel) {
                mix_past(stack, step, l, first, r, scratch);
            } else {
                if (r + 1 < rows) {
                    const Past next = Past::read(stack, step, l, first + r + 1);
                    fetch(
                        stack, static_cast<int>(step.place[first + r + 1]), [=](int t) -> const float* { return next.key(t); });
                }
                attend_to_past(stack, step, l, first + r, projected + static_cast<size_t>(r) * 3 * W,
                    context + static_cast<size_t>(r) * W, energy);
            }
        multiply(*layer.out, context, projected, rows, NONE, scratch.quantised);
        leave(stack, layer.mixer_norm, rows, scratch);
        if (layer.query != nullptr) read_memory(stack, step.memory, l, rows, scratch);
        feed_forward(stack, layer, rows, scratch);
    }
    float* outputs = step.outputs + first * W;
    if (stack.pre_norm)
        normalise(stack.final_norm, stack.eps, scratch.x.data(), outputs, rows, W);
    else
        std::copy(scratch.x.data(), scratch.x.data() + static_cast<size_t>(rows) * W, outputs);
}

}  // namespace transduce

// ---------------------------------------------------------------- the interface

using namespace transduce;

int64_t transduce_transformer_encode(const TransformerStack* stack, const int64_t* ids, const int64_t* lengths, int64_t rows,
    int64_t longest, const TransformerMemory* memory, float* states) {
    return guarded([=]() -> int64_t {
        if (longest > stack->embedding.most_positions) return NO_ROOM;
        const int64_t unknown = find_unknown(stack->embedding, ids, lengths, rows, longest);
        if (unknown != DONE) return unknown;
        Sentences some(ids, lengths, longest);
        const int64_t most_keys = memory == nullptr ? longest : std::max(longest, memory->longest);
        TransformerScratch& scratch = TransformerScratch::of(*stack, some.most(), static_cast<int>(most_keys));
        while (some.next(rows)) {
            if (memory != nullptr) find_sources(some, rows / memory->sources, scratch);
            encode(*stack, some, memory, scratch, states);
        }
        return DONE;
    });
}

int64_t transduce_transformer_step(const TransformerStack* decoder, const TransformerStep* step) {
    return guarded([=]() -> int64_t {
        const int64_t most = std::min<int64_t>(decoder->embedding.most_positions, step->capacity);
        for (int64_t n = 0; n < step->rows; ++n)
            if (step->place[n] >= most) return NO_ROOM;
        for (int64_t n = 0; n < step->rows; ++n)
            if (!is_known(decoder->embedding, step->tokens[n])) return step->tokens[n];
        const int block = static_cast<int>(std::min<int64_t>(BLOCK, step->rows));
        TransformerScratch& scratch =
            TransformerScratch::of(*decoder, block, static_cast<int>(std::max(step->capacity, step->memory.longest)));
        for (int64_t first = 0; first < step->rows; first += block)
            decode(*decoder, *step, first, static_cast<int>(std::min<int64_t>(block, step->rows - first)), scratch);
        return DONE;
    });
}

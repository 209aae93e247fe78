// ConvS2S (Gehring et al. 2017) that only predicts. convolution.h explains the memory layout. Weight normalisation is
// part of the packed matrices.

#include "convolution.h"

#include <algorithm>

#include "attention.h"

namespace transduce {

const float HALVE = 0.70710678118654752f;  // keeps the variance of a sum of two terms (section 3.4)

// Memory of a call for a block of rows. E, D and S as in convolution.h.
struct ConvolutionScratch {
    std::vector<float> embedded, query, context;  // [rows, E]
    std::vector<float> x, hidden;                 // [rows, D]
    std::vector<float> window, halves, energy;    // [rows, kernel, D], [rows, 2, D], [S]
    QuantisedRows quantised;

    static ConvolutionScratch& of(const ConvolutionStack& stack, int rows, int64_t longest) {
        static thread_local ConvolutionScratch scratch;
        const size_t E = static_cast<size_t>(rows) * stack.embedding.width, D = static_cast<size_t>(rows) * stack.width;
        for (std::vector<float>* each : {&scratch.embedded, &scratch.query, &scratch.context}) grow(*each, E);
        for (std::vector<float>* each : {&scratch.x, &scratch.hidden}) grow(*each, D);
        grow(scratch.window, stack.kernel * D);
        grow(scratch.halves, 2 * D);
        grow(scratch.energy, static_cast<size_t>(longest));
        return scratch;
    }
};

// x = (x + y) * HALVE
static inline void add_halved(float* x, const float* y, int count) {
    for (int i = 0; i < count; ++i) x[i] = (x[i] + y[i]) * HALVE;
}

// Maps scratch.window to scratch.hidden.
static void convolve(const ConvolutionStack& stack, const ConvolutionLayer& layer, int rows, ConvolutionScratch& scratch) {
    const size_t D = stack.width;
    multiply(*layer.convolution, scratch.window.data(), scratch.halves.data(), rows, NONE, scratch.quantised);
    for (int r = 0; r < rows; ++r) gate(scratch.halves.data() + r * 2 * D, scratch.hidden.data() + r * D, stack.width);
}

// ---------------------------------------------------------------- encoder

// The windows of a sentence x [length, D]: as many positions before as after each one, zeros beyond both ends.
static void centre(const ConvolutionStack& stack, const float* x, int64_t length, float* window) {
    const int64_t D = stack.width, before = stack.kernel / 2;
    for (int64_t t = 0; t < length; ++t)
        for (int64_t s = t - before; s < t - before + stack.kernel; ++s, window += D)
            if (0 <= s && s < length)
                std::copy(x + s * D, x + (s + 1) * D, window);
            else
                std::fill(window, window + D, 0.0f);
}

static void encode(
    const ConvolutionStack& stack, const Sentences& some, ConvolutionScratch& scratch, float* states, float* values) {
    const int E = stack.embedding.width, D = stack.width, rows = some.rows;
    float *embedded = scratch.embedded.data(), *x = scratch.x.data(), *state = scratch.context.data();
    some.embed(stack.embedding, embedded);
    multiply(*stack.widen, embedded, x, rows, NONE, scratch.quantised);
    for (int l = 0; l < stack.count; ++l) {
        size_t at = 0;
        for (int64_t b = some.first; b < some.last; at += some.lengths[b++] * D)
            centre(stack, x + at, some.lengths[b], scratch.window.data() + at * stack.kernel);
        convolve(stack, stack.layers[l], rows, scratch);
        add_halved(x, scratch.hidden.data(), rows * D);
    }
    multiply(*stack.narrow, x, state, rows, NONE, scratch.quantised);
    some.scatter(state, E, states);
    add_halved(state, embedded, rows * E);
    some.scatter(state, E, values);
}

// ---------------------------------------------------------------- decoder

// The window of row n: the last inputs of layer l, and the new one x. Without the first they are the next step's inputs.
static void move_window(
    const ConvolutionStack& stack, const ConvolutionStep& step, int l, int64_t n, const float* x, float* window) {
    const size_t D = stack.width, past = (stack.kernel - 1) * D, at = (n * stack.count + l) * past;
    std::copy(step.past + at, step.past + at + past, window);
    std::copy(x, x + D, window + past);
    std::copy(window + D, window + D + past, step.next + at);
}

static void attend_to_memory(
    const ConvolutionStack& stack, const ConvolutionStep& step, int64_t n, const float* query, float* context, float* energy) {
    const size_t E = stack.embedding.width;
    const Heads heads = {1, stack.embedding.width};
    const int64_t b = n / (step.rows / step.sources);
    const int length = static_cast<int>(step.lengths[b]);
    const float *keys = step.keys + b * step.longest * E, *values = step.values + b * step.longest * E;
    dot_energies(heads, query, 1.0f, length, energy, [=](int s) { return keys + s * E; });
    average(heads, energy, length, context, [=](int s) { return values + s * E; });
}

// x = ((out(attend(query(hidden))) + hidden) * HALVE + x) * HALVE: the rest of a layer that reads the memory.
static void read_memory(const ConvolutionStack& stack, const ConvolutionLayer& layer, const ConvolutionStep& step,
    int64_t first, int rows, ConvolutionScratch& scratch) {
    const size_t E = stack.embedding.width;
    float *query = scratch.query.data(), *context = scratch.context.data(), *read = scratch.halves.data();
    multiply(*layer.query, scratch.hidden.data(), query, rows, NONE, scratch.quantised);
    add_halved(query, scratch.embedded.data(), rows * stack.embedding.width);
    for (int r = 0; r < rows; ++r)
        attend_to_memory(stack, step, first + r, query + r * E, context + r * E, scratch.energy.data());
    multiply(*layer.out, context, read, rows, NONE, scratch.quantised);
    add_halved(read, scratch.hidden.data(), rows * stack.width);
    add_halved(scratch.x.data(), read, rows * stack.width);
}

static void decode(
    const ConvolutionStack& stack, const ConvolutionStep& step, int64_t first, int rows, ConvolutionScratch& scratch) {
    const size_t E = stack.embedding.width, D = stack.width;
    float *embedded = scratch.embedded.data(), *x = scratch.x.data();
    for (int r = 0; r < rows; ++r) embed(stack.embedding, step.tokens[first + r], step.place[first + r], embedded + r * E);
    multiply(*stack.widen, embedded, x, rows, NONE, scratch.quantised);
    for (int l = 0; l < stack.count; ++l) {
        const ConvolutionLayer& layer = stack.layers[l];
        for (int r = 0; r < rows; ++r)
            move_window(stack, step, l, first + r, x + r * D, scratch.window.data() + r * stack.kernel * D);
        convolve(stack, layer, rows, scratch);
        if (layer.query == nullptr)
            add_halved(x, scratch.hidden.data(), rows * stack.width);
        else
            read_memory(stack, layer, step, first, rows, scratch);
    }
    multiply(*stack.narrow, x, step.outputs + first * E, rows, NONE, scratch.quantised);
}

}  // namespace transduce

// ---------------------------------------------------------------- the interface

using namespace transduce;

int64_t transduce_convolution_encode(const ConvolutionStack* encoder, const int64_t* ids, const int64_t* lengths,
    int64_t sources, int64_t longest, float* states, float* values) {
    return guarded([=]() -> int64_t {
        if (longest > encoder->embedding.most_positions) return NO_ROOM;
        const int64_t unknown = find_unknown(encoder->embedding, ids, lengths, sources, longest);
        if (unknown != DONE) return unknown;
        Sentences some(ids, lengths, longest);
        ConvolutionScratch& scratch = ConvolutionScratch::of(*encoder, some.most(), longest);
        while (some.next(sources)) encode(*encoder, some, scratch, states, values);
        return DONE;
    });
}

int64_t transduce_convolution_step(const ConvolutionStack* decoder, const ConvolutionStep* step) {
    return guarded([=]() -> int64_t {
        for (int64_t n = 0; n < step->rows; ++n)
            if (step->place[n] >= decoder->embedding.most_positions) return NO_ROOM;
        for (int64_t n = 0; n < step->rows; ++n)
            if (!is_known(decoder->embedding, step->tokens[n])) return step->tokens[n];
        const int block = static_cast<int>(std::min<int64_t>(BLOCK, step->rows));
        ConvolutionScratch& scratch = ConvolutionScratch::of(*decoder, block, step->longest);
        for (int64_t first = 0; first < step->rows; first += block)
            decode(*decoder, *step, first, static_cast<int>(std::min<int64_t>(block, step->rows - first)), scratch);
        return DONE;
    });
}

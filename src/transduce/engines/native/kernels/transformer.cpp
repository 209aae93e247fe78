// A Transformer (Vaswani et al. 2017) that only predicts. transformer.h explains the memory layout.

#include "transformer.h"

#include "attention.h"

namespace transduce {

// Memory of a call for a block of rows.
struct TransformerScratch {
    std::vector<float> x, entered, projected, context, hidden, energy;
    QuantisedRows quantised;

    static TransformerScratch& of(const TransformerStack& stack, int rows, int longest) {
        static thread_local TransformerScratch scratch;
        const size_t size = static_cast<size_t>(rows) * stack.embedding.width;
        int widest = 0;
        for (int l = 0; l < stack.count; ++l) widest = std::max(widest, stack.layers[l].widen->outputs);
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

static void feed_forward(const TransformerStack& stack, const TransformerLayer& layer, int rows, TransformerScratch& scratch) {
    const float* entered = enter(stack, layer.feedforward_norm, rows, scratch);
    multiply(*layer.widen, entered, scratch.hidden.data(), rows, stack.activation, scratch.quantised);
    multiply(*layer.narrow, scratch.hidden.data(), scratch.projected.data(), rows, NONE, scratch.quantised);
    leave(stack, layer.feedforward_norm, rows, scratch);
}

// Attention of one query to positions whose value stands W numbers after their key.
template <class Key>
static inline void attend(const TransformerStack& stack, const float* query, float* context, int count, float* energy, Key key) {
    const int W = stack.embedding.width;
    const Heads heads = {stack.heads, W / stack.heads};
    dot_energies(heads, query, 1.0f / std::sqrt(static_cast<float>(heads.width)), count, energy, key);
    average(heads, energy, count, context, [=](int s) { return key(s) + W; });
}

// ---------------------------------------------------------------- encoder

// Self-attention of a whole sentence, whose queries, keys and values [length, 3, W] are `projected`.
static void attend_to_sentence(const TransformerStack& stack, const float* projected, float* context, int length, float* energy) {
    const int W = stack.embedding.width;
    const auto key = [=](int s) { return projected + static_cast<size_t>(s) * 3 * W + W; };
    for (int t = 0; t < length; ++t)
        attend(stack, projected + static_cast<size_t>(t) * 3 * W, context + static_cast<size_t>(t) * W, length, energy, key);
}

static void encode(const TransformerStack& stack, const Sentences& some, TransformerScratch& scratch, float* states) {
    const int W = stack.embedding.width, rows = some.rows;
    some.embed(stack.embedding, scratch.x.data());
    for (int l = 0; l < stack.count; ++l) {
        const TransformerLayer& layer = stack.layers[l];
        const float* entered = enter(stack, layer.mixer_norm, rows, scratch);
        multiply(*layer.project, entered, scratch.projected.data(), rows, NONE, scratch.quantised);
        size_t at = 0;
        for (int64_t b = some.first; b < some.last; at += some.lengths[b++])
            attend_to_sentence(
                stack, scratch.projected.data() + at * 3 * W, scratch.context.data() + at * W,
                static_cast<int>(some.lengths[b]), scratch.energy.data());
        multiply(*layer.out, scratch.context.data(), scratch.projected.data(), rows, NONE, scratch.quantised);
        leave(stack, layer.mixer_norm, rows, scratch);
        feed_forward(stack, layer, rows, scratch);
    }
    float* x = scratch.x.data();
    if (stack.pre_norm) normalise(stack.final_norm, stack.eps, x, x, rows, W);
    some.scatter(x, W, states);
}

// ---------------------------------------------------------------- decoder

// Keys and values of one position, of all layers: the stride of `past` and of `memory`.
static inline size_t position_size(const TransformerStack& stack) {
    return static_cast<size_t>(stack.count) * 2 * stack.embedding.width;
}

static void attend_to_past(
    const TransformerStack& stack, const TransformerStep& step, int l, int64_t n, const float* projected, float* context, float* energy) {
    const int W = stack.embedding.width;
    const int64_t hypotheses = step.rows / step.sources, place = step.place[n];
    const size_t size = position_size(stack), place_size = step.capacity * size;
    float* source = step.past + n / hypotheses * step.places * place_size + static_cast<size_t>(l) * 2 * W;
    int32_t* origin = step.origin + n * step.capacity;
    origin[place] = static_cast<int32_t>(n % hypotheses);
    std::copy(projected + W, projected + 3 * W, source + origin[place] * place_size + place * size);
    const auto key = [=](int t) -> const float* { return source + origin[t] * place_size + t * size; };
    attend(stack, projected, context, static_cast<int>(place) + 1, energy, key);
}

static void attend_to_memory(
    const TransformerStack& stack, const TransformerStep& step, int l, int64_t n, const float* query, float* context, float* energy) {
    const size_t size = position_size(stack);
    const int64_t b = n / (step.rows / step.sources);
    const float* source = step.memory + b * step.longest * size + static_cast<size_t>(l) * 2 * stack.embedding.width;
    const auto key = [=](int s) { return source + s * size; };
    attend(stack, query, context, static_cast<int>(step.lengths[b]), energy, key);
}

static void decode(const TransformerStack& stack, const TransformerStep& step, int64_t first, int rows, TransformerScratch& scratch) {
    const int W = stack.embedding.width;
    float *projected = scratch.projected.data(), *context = scratch.context.data(), *energy = scratch.energy.data();
    for (int r = 0; r < rows; ++r)
        embed(stack.embedding, step.tokens[first + r], step.place[first + r], scratch.x.data() + static_cast<size_t>(r) * W);
    for (int l = 0; l < stack.count; ++l) {
        const TransformerLayer& layer = stack.layers[l];
        multiply(*layer.project, enter(stack, layer.mixer_norm, rows, scratch), projected, rows, NONE, scratch.quantised);
        for (int r = 0; r < rows; ++r)
            attend_to_past(stack, step, l, first + r, projected + static_cast<size_t>(r) * 3 * W, context + static_cast<size_t>(r) * W, energy);
        multiply(*layer.out, context, projected, rows, NONE, scratch.quantised);
        leave(stack, layer.mixer_norm, rows, scratch);
        multiply(*layer.query, enter(stack, layer.memory_norm, rows, scratch), projected, rows, NONE, scratch.quantised);
        for (int r = 0; r < rows; ++r)
            attend_to_memory(stack, step, l, first + r, projected + static_cast<size_t>(r) * W, context + static_cast<size_t>(r) * W, energy);
        multiply(*layer.read_out, context, projected, rows, NONE, scratch.quantised);
        leave(stack, layer.memory_norm, rows, scratch);
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

int64_t transduce_transformer_encode(
    const TransformerStack* encoder, const int64_t* ids, const int64_t* lengths, int64_t sources, int64_t longest,
    float* states) {
    if (longest > encoder->embedding.most_positions) return NO_ROOM;
    const int64_t unknown = find_unknown(encoder->embedding, ids, lengths, sources, longest);
    if (unknown != DONE) return unknown;
    Sentences some(ids, lengths, longest);
    TransformerScratch& scratch = TransformerScratch::of(*encoder, some.most(), static_cast<int>(longest));
    while (some.next(sources)) encode(*encoder, some, scratch, states);
    return DONE;
}

int64_t transduce_transformer_step(const TransformerStack* decoder, const TransformerStep* step) {
    const int64_t most = std::min<int64_t>(decoder->embedding.most_positions, step->capacity);
    for (int64_t n = 0; n < step->rows; ++n)
        if (step->place[n] >= most) return NO_ROOM;
    for (int64_t n = 0; n < step->rows; ++n)
        if (!is_known(decoder->embedding, step->tokens[n])) return step->tokens[n];
    const int block = static_cast<int>(std::min<int64_t>(BLOCK, step->rows));
    TransformerScratch& scratch =
        TransformerScratch::of(*decoder, block, static_cast<int>(std::max(step->capacity, step->longest)));
    for (int64_t first = 0; first < step->rows; first += block)
        decode(*decoder, *step, first, static_cast<int>(std::min<int64_t>(block, step->rows - first)), scratch);
    return DONE;
}

// A Transformer (Vaswani et al. 2017) that only predicts. transformer.h explains the memory layout.
//
// Rows go through all layers in blocks, so that a block's activations stay in the second cache.

#include "transformer.h"

#include <algorithm>

namespace transduce {

const int BLOCK = 64;  // rows

// Memory of a call for a block of rows. Each thread keeps its own, because fresh memory costs a tenth of a step.
struct Scratch {
    std::vector<float> x, entered, projected, context, hidden, energy;
    QuantisedRows quantised;

    static Scratch& of(const Stack& stack, int rows, int longest) {
        static thread_local Scratch scratch;
        const size_t size = static_cast<size_t>(rows) * stack.width;
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

  private:
    static void grow(std::vector<float>& memory, size_t size) {
        if (memory.size() < size) memory.resize(size);
    }
};

static inline void normalise(const Stack& stack, const Norm& norm, const float* from, float* to, int rows) {
    for (int r = 0; r < rows; ++r) {
        const size_t at = static_cast<size_t>(r) * stack.width;
        layer_norm(from + at, to + at, norm.weight, norm.bias, stack.eps, stack.width);
    }
}

// The input of a sublayer: with pre-norm, the normalised rows.
static const float* enter(const Stack& stack, const Norm& norm, int rows, Scratch& scratch) {
    if (!stack.pre_norm) return scratch.x.data();
    normalise(stack, norm, scratch.x.data(), scratch.entered.data(), rows);
    return scratch.entered.data();
}

// Adds the result of a sublayer, which stands in `projected`; with post-norm, normalises the sum.
static void leave(const Stack& stack, const Norm& norm, int rows, Scratch& scratch) {
    add(scratch.x.data(), scratch.projected.data(), rows * stack.width);
    if (!stack.pre_norm) normalise(stack, norm, scratch.x.data(), scratch.x.data(), rows);
}

static void embed(const Stack& stack, int64_t id, int64_t place, float* x) {
    const float* vector = stack.embedding + id * stack.width;
    const float* position = stack.positions + place * stack.width;
    for (int i = 0; i < stack.width; ++i) x[i] = vector[i] * stack.embedding_scale + position[i];
}

static void feed_forward(const Stack& stack, const Layer& layer, int rows, Scratch& scratch) {
    const float* entered = enter(stack, layer.feedforward_norm, rows, scratch);
    multiply(*layer.widen, entered, scratch.hidden.data(), rows, stack.activation, scratch.quantised);
    multiply(*layer.narrow, scratch.hidden.data(), scratch.projected.data(), rows, NONE, scratch.quantised);
    leave(stack, layer.feedforward_norm, rows, scratch);
}

// Attention of one query to `count` positions. `key(s)` returns the address of the key of position s, all heads; its value
// stands W numbers after it. `energy` is memory for [heads, count]. The heads are the inner loop, because a position's
// key is one piece of memory.
template <class Key>
static inline void attend(const Stack& stack, const float* query, float* context, int count, float* energy, Key key) {
    const int W = stack.width, D = W / stack.heads;
    const float scale = 1.0f / std::sqrt(static_cast<float>(D));
    std::fill(context, context + W, 0.0f);
    if (count == 0) return;  // a source without tokens
    for (int s = 0; s < count; ++s) {
        const float* of_all_heads = key(s);
        for (int h = 0; h < stack.heads; ++h)
            energy[h * count + s] = dot(query + h * D, of_all_heads + h * D, D) * scale;
    }
    for (int h = 0; h < stack.heads; ++h) softmax(energy + h * count, count);
    for (int s = 0; s < count; ++s) {
        const float* value = key(s) + W;
        for (int h = 0; h < stack.heads; ++h) add_scaled(context + h * D, value + h * D, energy[h * count + s], D);
    }
}

// ---------------------------------------------------------------- encoder

// Self-attention of a whole sentence, whose queries, keys and values [length, 3, W] are `projected`.
static void attend_to_sentence(const Stack& stack, const float* projected, float* context, int length, float* energy) {
    const int W = stack.width;
    const auto key = [=](int s) { return projected + static_cast<size_t>(s) * 3 * W + W; };
    for (int t = 0; t < length; ++t)
        attend(stack, projected + static_cast<size_t>(t) * 3 * W, context + static_cast<size_t>(t) * W, length, energy, key);
}

// Sentences that go through the encoder together, one after the other without padding.
struct Sentences {
    const int64_t *ids, *lengths;
    int64_t longest, first, last;
    int rows;
};

static void encode(const Stack& stack, const Matrix& project, const Sentences& some, Scratch& scratch, float* memory) {
    const int W = stack.width, rows = some.rows;
    float* x = scratch.x.data();
    for (int64_t b = some.first; b < some.last; ++b)
        for (int64_t s = 0; s < some.lengths[b]; ++s, x += W) embed(stack, some.ids[b * some.longest + s], s, x);
    for (int l = 0; l < stack.count; ++l) {
        const Layer& layer = stack.layers[l];
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
    if (stack.pre_norm) normalise(stack, stack.final_norm, scratch.x.data(), scratch.x.data(), rows);
    const float* state = scratch.x.data();
    for (int64_t b = some.first; b < some.last; state += some.lengths[b++] * W) {
        float* to = memory + b * some.longest * project.outputs;
        multiply(project, state, to, static_cast<int>(some.lengths[b]), NONE, scratch.quantised);
        std::fill(to + some.lengths[b] * project.outputs, to + some.longest * project.outputs, 0.0f);
    }
}

// ---------------------------------------------------------------- decoder

// Keys and values of one position, of all layers: the stride of `past` and of `memory`.
static inline size_t position_size(const Stack& stack) { return static_cast<size_t>(stack.count) * 2 * stack.width; }

static void attend_to_past(const Stack& stack, const Step& step, int l, int64_t n, const float* projected, float* context, float* energy) {
    const int W = stack.width;
    const int64_t hypotheses = step.rows / step.sources, place = step.place[n];
    const size_t size = position_size(stack), place_size = step.capacity * size;
    float* source = step.past + n / hypotheses * step.places * place_size + static_cast<size_t>(l) * 2 * W;
    int32_t* origin = step.origin + n * step.capacity;
    origin[place] = static_cast<int32_t>(n % hypotheses);
    std::copy(projected + W, projected + 3 * W, source + origin[place] * place_size + place * size);
    const auto key = [=](int t) -> const float* { return source + origin[t] * place_size + t * size; };
    attend(stack, projected, context, static_cast<int>(place) + 1, energy, key);
}

static void attend_to_memory(const Stack& stack, const Step& step, int l, int64_t n, const float* query, float* context, float* energy) {
    const size_t size = position_size(stack);
    const int64_t b = n / (step.rows / step.sources);
    const float* source = step.memory + b * step.longest * size + static_cast<size_t>(l) * 2 * stack.width;
    const auto key = [=](int s) { return source + s * size; };
    attend(stack, query, context, static_cast<int>(step.lengths[b]), energy, key);
}

static void decode(const Stack& stack, const Step& step, int64_t first, int rows, Scratch& scratch) {
    const int W = stack.width;
    float *projected = scratch.projected.data(), *context = scratch.context.data(), *energy = scratch.energy.data();
    for (int r = 0; r < rows; ++r)
        embed(stack, step.tokens[first + r], step.place[first + r], scratch.x.data() + static_cast<size_t>(r) * W);
    for (int l = 0; l < stack.count; ++l) {
        const Layer& layer = stack.layers[l];
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
        normalise(stack, stack.final_norm, scratch.x.data(), outputs, rows);
    else
        std::copy(scratch.x.data(), scratch.x.data() + static_cast<size_t>(rows) * W, outputs);
}

static bool is_known(const Stack& stack, int64_t id) { return 0 <= id && id < stack.vocabulary; }

}  // namespace transduce

// ---------------------------------------------------------------- the interface

using namespace transduce;

int32_t transduce_processor() {
#if (defined(__GNUC__) || defined(__clang__)) && (defined(__x86_64__) || defined(__i386__))
    __builtin_cpu_init();
    const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vnni");
    return wide ? 2 : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 1 : 0;
#else
    return 0;
#endif
}

Matrix* transduce_pack_integers(
    const int8_t* weight, const float* scale, const float* bias, int32_t outputs, int32_t inputs) {
    Matrix* matrix = new Matrix(outputs, inputs, bias);
    matrix->pack(weight, scale);
    return matrix;
}

Matrix* transduce_pack_floats(const float* weight, const float* bias, int32_t outputs, int32_t inputs) {
    Matrix* matrix = new Matrix(outputs, inputs, bias);
    matrix->pack(weight);
    return matrix;
}

void transduce_free(Matrix* matrix) { delete matrix; }

void transduce_multiply(const Matrix* matrix, const float* x, float* y, int64_t rows) {
    QuantisedRows quantised;
    multiply(*matrix, x, y, static_cast<int>(rows), NONE, quantised);
}

int64_t transduce_encode(
    const Stack* encoder, const Matrix* project, const int64_t* ids, const int64_t* lengths, int64_t sources,
    int64_t longest, float* memory) {
    if (longest > encoder->most_positions) return NO_ROOM;
    for (int64_t b = 0; b < sources; ++b)
        for (int64_t s = 0; s < lengths[b]; ++s)
            if (!is_known(*encoder, ids[b * longest + s])) return ids[b * longest + s];
    Scratch& scratch = Scratch::of(*encoder, static_cast<int>(std::max<int64_t>(BLOCK, longest)), static_cast<int>(longest));
    Sentences some = {ids, lengths, longest, 0, 0, 0};
    while (some.last < sources) {
        some.first = some.last;
        some.rows = 0;
        while (some.last < sources && (some.rows == 0 || some.rows + lengths[some.last] <= BLOCK))
            some.rows += static_cast<int>(lengths[some.last++]);
        encode(*encoder, *project, some, scratch, memory);
    }
    return DONE;
}

int64_t transduce_step(const Stack* decoder, const Step* step) {
    const int64_t most = std::min<int64_t>(decoder->most_positions, step->capacity);
    for (int64_t n = 0; n < step->rows; ++n)
        if (step->place[n] >= most) return NO_ROOM;
    for (int64_t n = 0; n < step->rows; ++n)
        if (!is_known(*decoder, step->tokens[n])) return step->tokens[n];
    const int block = static_cast<int>(std::min<int64_t>(BLOCK, step->rows));
    Scratch& scratch = Scratch::of(*decoder, block, static_cast<int>(std::max(step->capacity, step->longest)));
    for (int64_t first = 0; first < step->rows; first += block)
        decode(*decoder, *step, first, static_cast<int>(std::min<int64_t>(block, step->rows - first)), scratch);
    return DONE;
}

// Recurrent networks that only predict. recurrent.h explains the structures.

#include "recurrent.h"

#include <algorithm>
#include <numeric>

#include "attention.h"

namespace transduce {

enum CellKind { LSTM = 0, GRU = 1, ELMAN_TANH = 2, ELMAN_SIGMOID = 3, SSRU = 4 };
enum Wiring { PLAIN = 0, BAHDANAU = 1, LUONG = 2 };

static inline int leaves(const RecurrentCell& cell) { return cell.kind == LSTM ? 2 : 1; }
static inline int state_width(const RecurrentCell& cell) { return leaves(cell) * cell.width; }

// ---------------------------------------------------------------- cells

// Each function below advances one row. `p` are the gates from the input, `u` the gates from the state. State, gates and
// output never overlap. `state` and `next` may be the same memory: number i of a row depends on number i only, which the
// compiler must be told before it makes vector instructions.
#if defined(__GNUC__) && !defined(__clang__)
#define INDEPENDENT _Pragma("GCC ivdep")
#elif defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT
#endif

static void lstm(const RecurrentCell& cell, const float* __restrict p, const float* __restrict u, const float* state,
    float* next, float* __restrict y) {
    const int W = cell.width;
    INDEPENDENT
    for (int i = 0; i < W; ++i) {
        const float c =
            sigmoid(p[W + i] + u[W + i]) * state[W + i] + sigmoid(p[i] + u[i]) * tangent(p[2 * W + i] + u[2 * W + i]);
        next[W + i] = c;
        y[i] = sigmoid(p[3 * W + i] + u[3 * W + i]) * tangent(c);
    }
    std::copy(y, y + W, next);
}

// An LSTM whose gates i and f read c, and whose gate o reads the new c.
static void peephole_lstm(const RecurrentCell& cell, const float* __restrict p, const float* __restrict u, const float* state,
    float* next, float* __restrict y) {
    const int W = cell.width;
    const float* __restrict seen = cell.peepholes;
    INDEPENDENT
    for (int i = 0; i < W; ++i) {
        const float before = state[W + i];
        const float in = sigmoid(p[i] + u[i] + seen[i] * before), forget = sigmoid(p[W + i] + u[W + i] + seen[W + i] * before);
        const float c = forget * before + in * tangent(p[2 * W + i] + u[2 * W + i]);
        next[W + i] = c;
        y[i] = sigmoid(p[3 * W + i] + u[3 * W + i] + seen[2 * W + i] * c) * tangent(c);
    }
    std::copy(y, y + W, next);
}

static void gru(const RecurrentCell& cell, const float* __restrict p, const float* __restrict u, const float* state,
    float* next, float* __restrict y) {
    const int W = cell.width;
    INDEPENDENT
    for (int i = 0; i < W; ++i) {
        const float reset = sigmoid(p[i] + u[i]), keep = sigmoid(p[W + i] + u[W + i]);
        const float new_h = tangent(p[2 * W + i] + reset * u[2 * W + i]);
        y[i] = new_h + keep * (state[i] - new_h);
    }
    std::copy(y, y + W, next);
}

static void elman(const RecurrentCell& cell, const float* __restrict p, const float* __restrict u, const float*, float* next,
    float* __restrict y) {
    if (cell.kind == ELMAN_TANH)
        for (int i = 0; i < cell.width; ++i) y[i] = tangent(p[i] + u[i]);
    else
        for (int i = 0; i < cell.width; ++i) y[i] = sigmoid(p[i] + u[i]);
    std::copy(y, y + cell.width, next);
}

static void ssru(
    const RecurrentCell& cell, const float* __restrict p, const float*, const float* state, float* next, float* __restrict y) {
    const int W = cell.width;
    INDEPENDENT
    for (int i = 0; i < W; ++i) {
        const float c = p[W + i] + sigmoid(p[i]) * (state[i] - p[W + i]);
        next[i] = c;
        y[i] = c > 0 ? c : 0;
    }
}

typedef void (*Advance)(const RecurrentCell&, const float*, const float*, const float*, float*, float*);

static Advance advance_of(const RecurrentCell& cell) {
    if (cell.kind == LSTM) return cell.peepholes == nullptr ? lstm : peephole_lstm;
    return cell.kind == GRU ? gru : cell.kind == SSRU ? ssru : elman;
}

// Memory of a call.
struct RecurrentScratch {
    std::vector<float> x, above, y, hidden, projected, state, query, context, joined, energy, tangents;
    QuantisedRows quantised;

    static RecurrentScratch& of_thread() {
        static thread_local RecurrentScratch scratch;
        return scratch;
    }
};

// Advances `rows` rows. `projected` [rows, G] are the gates from the input. The states of the rows are `stride` numbers
// apart in `state` and in `next`, which may be the same memory. `y` [rows, W] becomes the output.
static void step_cell(const RecurrentCell& cell, const float* projected, int rows, const float* state, float* next, int stride,
    float* y, RecurrentScratch& scratch) {
    const int W = cell.width, G = cell.input->outputs;
    const float* hidden = nullptr;
    if (cell.recurrent != nullptr) {
        grow(scratch.hidden, static_cast<size_t>(rows) * G);
        const float* h = state;
        if (rows > 1) {
            for (int r = 0; r < rows; ++r)
                std::copy(state + static_cast<size_t>(r) * stride, state + static_cast<size_t>(r) * stride + W,
                    y + static_cast<size_t>(r) * W);
            h = y;
        }
        multiply(*cell.recurrent, h, scratch.hidden.data(), rows, NONE, scratch.quantised);
        hidden = scratch.hidden.data();
    }
    const Advance advance = advance_of(cell);
    for (int r = 0; r < rows; ++r) {
        const size_t at = static_cast<size_t>(r) * stride, gates = static_cast<size_t>(r) * G;
        advance(cell, projected + gates, hidden == nullptr ? hidden : hidden + gates, state + at, next + at,
            y + static_cast<size_t>(r) * W);
    }
}

// ---------------------------------------------------------------- encoder

const int GROUP_OF_SENTENCES = 48;  // that go through an encoder together
const int CHUNK = 256;              // rows whose gates are computed together

// Sentences, the longest first, whose positions are stored by time: all first positions, then all second ones. At each
// time the sentences that go on are the first of the group. So a step of all of them reads one piece of memory.
struct Group {
    const int64_t *order, *lengths;  // the numbers of the sentences, and all lengths
    int count;
    std::vector<int> offset;  // of each time; the last one is the number of rows

    Group(const int64_t* order, int count, const int64_t* lengths) : order(order), lengths(lengths), count(count) {
        const int64_t longest = count == 0 ? 0 : lengths[order[0]];
        offset.assign(longest + 1, 0);
        for (int64_t t = 0; t < longest; ++t) {
            int going = count;
            while (lengths[order[going - 1]] <= t) --going;
            offset[t + 1] = offset[t] + going;
        }
    }
    int steps() const { return static_cast<int>(offset.size()) - 1; }
    int rows() const { return offset.back(); }
    int going(int t) const { return offset[t + 1] - offset[t]; }
};

// Runs a cell over x [rows, D] in one direction. Writes its outputs into columns of `out`, whose rows are E numbers
// apart, and leaves its states after the last positions in scratch.state [sentences, state_width].
static void run(const RecurrentCell& cell, const Group& group, bool backward, const float* x, float* out, int E,
    RecurrentScratch& scratch) {
    const int W = cell.width, D = cell.input->inputs, G = cell.input->outputs, F = state_width(cell), T = group.steps();
    grow(scratch.state, static_cast<size_t>(group.count) * F);
    std::fill(scratch.state.begin(), scratch.state.begin() + static_cast<size_t>(group.count) * F, 0.0f);
    grow(scratch.y, static_cast<size_t>(group.count) * W);
    grow(scratch.projected, static_cast<size_t>(CHUNK + group.count) * G);
    for (int done = 0; done < T;) {
        int first = backward ? T - done - 1 : done, last = first + 1;  // the times of a chunk
        const auto rows = [&]() { return group.offset[last] - group.offset[first]; };
        while ((backward ? first > 0 : last < T) && rows() < CHUNK) backward ? --first : ++last;
        multiply(*cell.input, x + static_cast<size_t>(group.offset[first]) * D, scratch.projected.data(), rows(), NONE,
            scratch.quantised);
        for (int step = first; step < last; ++step) {
            const int t = backward ? first + last - 1 - step : step, n = group.going(t);
            const float* projected = scratch.projected.data() + static_cast<size_t>(group.offset[t] - group.offset[first]) * G;
            step_cell(cell, projected, n, scratch.state.data(), scratch.state.data(), F, scratch.y.data(), scratch);
            float* to = out + static_cast<size_t>(group.offset[t]) * E;
            for (int r = 0; r < n; ++r, to += E)
                std::copy(scratch.y.data() + static_cast<size_t>(r) * W, scratch.y.data() + static_cast<size_t>(r + 1) * W, to);
        }
        done += last - first;
    }
}

// `put` writes the vector of a sentence's position: put(sentence, position, to).
template <class Put>
static void encode(const RecurrentEncoder& encoder, const Group& group, const Put& put, int64_t longest, float* states,
    float* summary, int summary_width, RecurrentScratch& scratch) {
    const int rows = group.rows();
    int width = encoder.embedding.width, column = 0;
    grow(scratch.x, static_cast<size_t>(rows) * width);
    for (int t = 0; t < group.steps(); ++t)
        for (int i = 0; i < group.going(t); ++i)
            put(group.order[i], t, scratch.x.data() + static_cast<size_t>(group.offset[t] + i) * width);
    for (int l = 0; l < encoder.count; ++l) {
        const RecurrentCell* both = encoder.cells + 2 * l;
        int E = 0;
        for (int way = 0; way < 2; ++way) E += both[way].input == nullptr ? 0 : both[way].width;
        grow(scratch.above, static_cast<size_t>(rows) * E);
        float* out = scratch.above.data();
        for (int way = 0; way < 2; ++way) {
            if (both[way].input == nullptr) continue;
            run(both[way], group, way == 1, scratch.x.data(), out, E, scratch);
            out += both[way].width;
            const int F = state_width(both[way]);
            for (int i = 0; i < group.count; ++i)
                std::copy(scratch.state.data() + static_cast<size_t>(i) * F,
                    scratch.state.data() + static_cast<size_t>(i + 1) * F, summary + group.order[i] * summary_width + column);
            column += F;
        }
        if (encoder.residual && l > 0) add(scratch.above.data(), scratch.x.data(), rows * E);
        scratch.x.swap(scratch.above);
        width = E;
    }
    for (int i = 0; i < group.count; ++i) {
        const int64_t length = group.lengths[group.order[i]];
        float* to = states + group.order[i] * longest * width;
        for (int64_t t = 0; t < length; ++t, to += width) {
            const float* from = scratch.x.data() + static_cast<size_t>(group.offset[t] + i) * width;
            std::copy(from, from + width, to);
        }
        std::fill(to, to + (longest - length) * width, 0.0f);
    }
}

// Encodes all sources, those of similar length together.
template <class Put>
static void encode_groups(const RecurrentEncoder& encoder, const Put& put, const int64_t* lengths, int64_t sources,
    int64_t longest, float* states, float* summary) {
    int F = 0;
    for (int c = 0; c < 2 * encoder.count; ++c) F += encoder.cells[c].input == nullptr ? 0 : state_width(encoder.cells[c]);
    std::vector<int64_t> order(sources);
    std::iota(order.begin(), order.end(), static_cast<int64_t>(0));
    std::stable_sort(order.begin(), order.end(), [=](int64_t a, int64_t b) { return lengths[a] > lengths[b]; });
    RecurrentScratch& scratch = RecurrentScratch::of_thread();
    for (int64_t first = 0; first < sources; first += GROUP_OF_SENTENCES) {
        const int count = static_cast<int>(std::min<int64_t>(GROUP_OF_SENTENCES, sources - first));
        encode(encoder, Group(order.data() + first, count, lengths), put, longest, states, summary, F, scratch);
    }
}

// ---------------------------------------------------------------- decoder

// The output of a stack in this state: of the highest cell, or with `residual` the sum of all.
static void read_output(const RecurrentDecoder& decoder, const float* state, float* y) {
    const int W = decoder.cells[0].width;
    std::fill(y, y + W, 0.0f);
    for (int l = 0; l < decoder.count; state += state_width(decoder.cells[l++])) {
        if (!decoder.residual && l + 1 < decoder.count) continue;
        const bool positive = decoder.cells[l].kind == SSRU;
        for (int i = 0; i < W; ++i) y[i] += positive && state[i] < 0 ? 0 : state[i];
    }
}

// Attention of the rows y [rows, W] to their sources: writes scratch.context [rows, M].
static void attend(const RecurrentDecoder& decoder, const RecurrentStep& step, int64_t first, int rows, const float* y,
    RecurrentScratch& scratch) {
    const int K = decoder.key_width, M = decoder.value_width;
    grow(scratch.context, static_cast<size_t>(rows) * M);
    grow(scratch.energy, step.longest);
    grow(scratch.tangents, K);
    const float* query = y;
    if (decoder.query != nullptr) {
        grow(scratch.query, static_cast<size_t>(rows) * K);
        multiply(*decoder.query, y, scratch.query.data(), rows, NONE, scratch.quantised);
        query = scratch.query.data();
    }
    const int64_t hypotheses = step.rows / step.sources;
    float *energy = scratch.energy.data(), *tangents = scratch.tangents.data();
    for (int r = 0; r < rows; ++r, query += K) {
        const int64_t b = (first + r) / hypotheses;
        const int count = static_cast<int>(step.lengths[b]);
        const float *keys = step.keys + b * step.longest * K, *values = step.values + b * step.longest * M;
        const auto key = [=](int s) { return keys + static_cast<size_t>(s) * K; };
        const auto value = [=](int s) { return values + static_cast<size_t>(s) * M; };
        if (decoder.score == nullptr)
            dot_energies({1, K}, query, decoder.scale, count, energy, key);
        else
            for (int s = 0; s < count; ++s) {
                const float* of_source = key(s);
                for (int i = 0; i < K; ++i) tangents[i] = tangent(query[i] + of_source[i]);
                energy[s] = dot(decoder.score, tangents, K);
            }
        average({1, M}, energy, count, scratch.context.data() + static_cast<size_t>(r) * M, value);
    }
}

// Copies the rows of x [rows, width] into columns of `to`, whose rows are `stride` numbers apart.
static void place(const float* x, int rows, int width, float* to, int stride) {
    for (int r = 0; r < rows; ++r, to += stride, x += width) std::copy(x, x + width, to);
}

// All cells: their next states, and the output of the stack in scratch.y. `projected` are the lowest cell's gates.
static void step_stack(
    const RecurrentDecoder& decoder, const float* state, float* next, int F, int rows, RecurrentScratch& scratch) {
    const size_t size = static_cast<size_t>(rows) * decoder.cells[0].width;
    grow(scratch.y, size);
    grow(scratch.above, size);
    for (int l = 0; l < decoder.count; ++l) {
        const RecurrentCell& cell = decoder.cells[l];
        if (l > 0) {
            grow(scratch.projected, static_cast<size_t>(rows) * cell.input->outputs);
            multiply(*cell.input, scratch.y.data(), scratch.projected.data(), rows, NONE, scratch.quantised);
        }
        step_cell(cell, scratch.projected.data(), rows, state, next, F, scratch.above.data(), scratch);
        if (decoder.residual && l > 0) add(scratch.above.data(), scratch.y.data(), static_cast<int>(size));
        scratch.y.swap(scratch.above);
        state += state_width(cell);
        next += state_width(cell);
    }
}

static void decode(
    const RecurrentDecoder& decoder, const RecurrentStep& step, int64_t first, int rows, RecurrentScratch& scratch) {
    const RecurrentCell& lowest = decoder.cells[0];
    const int W = lowest.width, E = decoder.embedding.width, M = decoder.value_width, G = lowest.input->outputs;
    const int F = static_cast<int>(step.state_width);
    const float* state = step.state + first * F;
    float *next = step.next + first * F, *outputs = step.outputs + first * W;
    grow(scratch.x, static_cast<size_t>(rows) * E);
    for (int r = 0; r < rows; ++r)
        embed(decoder.embedding, step.tokens[first + r], 0, scratch.x.data() + static_cast<size_t>(r) * E);
    grow(scratch.projected, static_cast<size_t>(rows) * G);
    multiply(*lowest.input, scratch.x.data(), scratch.projected.data(), rows, NONE, scratch.quantised);
    if (decoder.second != nullptr) {
        grow(scratch.y, static_cast<size_t>(rows) * W);
        if (decoder.wiring == BAHDANAU) {
            for (int r = 0; r < rows; ++r)
                read_output(decoder, state + static_cast<size_t>(r) * F, scratch.y.data() + static_cast<size_t>(r) * W);
            attend(decoder, step, first, rows, scratch.y.data(), scratch);
        } else {  // input feeding: the features are the last part of the state
            for (int r = 0; r < rows; ++r)
                std::copy(state + static_cast<size_t>(r + 1) * F - W, state + static_cast<size_t>(r + 1) * F,
                    scratch.y.data() + static_cast<size_t>(r) * W);
        }
        grow(scratch.hidden, static_cast<size_t>(rows) * G);
        const float* entering = decoder.wiring == BAHDANAU ? scratch.context.data() : scratch.y.data();
        multiply(*decoder.second, entering, scratch.hidden.data(), rows, NONE, scratch.quantised);
        add(scratch.projected.data(), scratch.hidden.data(), rows * G);
    }
    step_stack(decoder, state, next, F, rows, scratch);
    const float *y = scratch.y.data(), *x = scratch.x.data();
    if (decoder.wiring == PLAIN) {
        std::copy(y, y + static_cast<size_t>(rows) * W, outputs);
        return;
    }
    if (decoder.wiring == LUONG) attend(decoder, step, first, rows, y, scratch);
    const int joined = decoder.mix->inputs;
    grow(scratch.joined, static_cast<size_t>(rows) * joined);
    float* to = scratch.joined.data();
    if (decoder.wiring == LUONG) {
        place(scratch.context.data(), rows, M, to, joined);
        place(y, rows, W, to + M, joined);
    } else {
        place(y, rows, W, to, joined);
        place(scratch.context.data(), rows, M, to + W, joined);
        place(x, rows, E, to + W + M, joined);
    }
    multiply(*decoder.mix, to, outputs, rows, TANH, scratch.quantised);
    if (decoder.wiring == LUONG && decoder.second != nullptr) place(outputs, rows, W, next + F - W, F);
}

}  // namespace transduce

// ---------------------------------------------------------------- the interface

using namespace transduce;

int64_t transduce_recurrent_encode(const RecurrentEncoder* encoder, const int64_t* ids, const int64_t* lengths, int64_t sources,
    int64_t longest, float* states, float* summary) {
    return guarded([=]() -> int64_t {
        const int64_t unknown = find_unknown(encoder->embedding, ids, lengths, sources, longest);
        if (unknown != DONE) return unknown;
        const auto put = [=](int64_t b, int64_t t, float* to) { embed(encoder->embedding, ids[b * longest + t], t, to); };
        encode_groups(*encoder, put, lengths, sources, longest, states, summary);
        return DONE;
    });
}

int64_t transduce_recurrent_encode_vectors(const RecurrentEncoder* encoder, const float* vectors, const int64_t* lengths,
    int64_t sources, int64_t longest, float* states, float* summary) {
    return guarded([=]() -> int64_t {
        const int64_t width = encoder->embedding.width;
        const auto put = [=](int64_t b, int64_t t, float* to) {
            const float* from = vectors + (b * longest + t) * width;
            std::copy(from, from + width, to);
        };
        encode_groups(*encoder, put, lengths, sources, longest, states, summary);
        return DONE;
    });
}

int64_t transduce_recurrent_step(const RecurrentDecoder* decoder, const RecurrentStep* step) {
    return guarded([=]() -> int64_t {
        for (int64_t n = 0; n < step->rows; ++n)
            if (!is_known(decoder->embedding, step->tokens[n])) return step->tokens[n];
        RecurrentScratch& scratch = RecurrentScratch::of_thread();
        for (int64_t first = 0; first < step->rows; first += BLOCK)
            decode(*decoder, *step, first, static_cast<int>(std::min<int64_t>(BLOCK, step->rows - first)), scratch);
        return DONE;
    });
}

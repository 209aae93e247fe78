// Attention, dropout and cross-entropy for training, and the threads of PyTorch.

#include "training.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <vector>

#include "numbers.h"

#if defined(__AVX512F__) || (defined(__AVX2__) && defined(__FMA__))
#include <immintrin.h>
#endif

namespace transduce {

// ---------------------------------------------------------------- threads

typedef void (*Parallel)(void (*)(void*), void*, unsigned, unsigned);
static std::atomic<Parallel> parallel(nullptr);

template <class Work>
struct Parts {
    const Work* work;
    int64_t count;
    std::atomic<int64_t> next;
    std::atomic<bool> failed;  // an exception must not leave a thread

    static void take(void* parts) {
        Parts& self = *static_cast<Parts*>(parts);
        try {
            for (int64_t part; (part = self.next.fetch_add(1, std::memory_order_relaxed)) < self.count;) (*self.work)(part);
        } catch (const std::exception&) {
            self.failed = true;
        }
    }
};

// Calls work(part) once for each part, by PyTorch's threads. Throws std::bad_alloc if a part finds no memory.
template <class Work>
static void share(int64_t parts, int threads, const Work& work) {
    const Parallel in_parallel = parallel.load();
    if (in_parallel == nullptr || threads < 2 || parts < 2) {
        for (int64_t part = 0; part < parts; ++part) work(part);
        return;
    }
    Parts<Work> all = {&work, parts, {0}, {false}};
    in_parallel(&Parts<Work>::take, &all, static_cast<unsigned>(threads), 0);
    if (all.failed) throw std::bad_alloc();
}

// ---------------------------------------------------------------- numbers

typedef uint16_t Half;  // bfloat16: the upper half of a float32

static inline float wide(float x) { return x; }

static inline float wide(Half x) {
    const uint32_t bits = static_cast<uint32_t>(x) << 16;
    float y;
    std::memcpy(&y, &bits, sizeof y);
    return y;
}

template <class Number>
static inline Number narrow(float x);

template <>
inline float narrow<float>(float x) {
    return x;
}

template <>
inline Half narrow<Half>(float x) {  // to the nearest, and of two to the even one
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    return static_cast<Half>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

// A mixer of 32 bits (lowbias32, C. Wellons): each bit of x changes each bit of the result with a probability near a half.
static inline uint32_t mixed(uint32_t x) {
    x = (x ^ (x >> 16)) * 0x7FEB352DU;
    x = (x ^ (x >> 15)) * 0x846CA68BU;
    return x ^ (x >> 16);
}

// A number for a row, from which each of its elements gets its own.
static inline uint32_t of_row(uint64_t seed, uint64_t row) {
    uint64_t x = seed + 0x9E3779B97F4A7C15ULL * (row + 1);  // SplitMix64
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    return static_cast<uint32_t>((x ^ (x >> 31)) >> 32);
}

// What dropout multiplies elements with, from element `first` of a row on: 0 or the scale. `count` is a multiple of
// SIXTEEN, which a loop inside a loop tells the compiler: it would compute a remainder one by one.
static void factors(uint32_t row, uint32_t first, const Dropped& of, int count, float* to) {
    const uint32_t dropped = of.dropped;
    const float scale = of.scale;
    for (int begin = 0; begin < count; begin += SIXTEEN, first += SIXTEEN, to += SIXTEEN)
        for (uint32_t i = 0; i < SIXTEEN; ++i) to[i] = mixed(row + (first + i) * 0x9E3779B9U) >= dropped ? scale : 0.0f;
}

// ---------------------------------------------------------------- small products

#if defined(__AVX512F__)
const int LANE = 16, LANES = 4, ROWS = 4, ROWS_OF_ONE = 8;  // 32 registers
typedef __m512 Lane;
static inline Lane all(float x) { return _mm512_set1_ps(x); }
static inline Lane multiply_add(Lane a, Lane b, Lane c) { return _mm512_fmadd_ps(a, b, c); }
#elif defined(__AVX2__) && defined(__FMA__)
const int LANE = 8, LANES = 2, ROWS = 4, ROWS_OF_ONE = 4;  // 16 registers
typedef __m256 Lane;
static inline Lane all(float x) { return _mm256_set1_ps(x); }
static inline Lane multiply_add(Lane a, Lane b, Lane c) { return _mm256_fmadd_ps(a, b, c); }
#else
const int LANE = 4, LANES = 2, ROWS = 4, ROWS_OF_ONE = 4;
typedef Four Lane;
static inline Lane all(float x) { return Lane{x, x, x, x}; }
static inline Lane multiply_add(Lane a, Lane b, Lane c) { return a * b + c; }
#endif

// A matrix [rows, columns] in float32, at any strides: a transposed one is the same memory with its strides exchanged.
struct View {
    const float* data;
    int64_t row, column;
};

template <int R, int L>
static inline void block(const View& a, const float* b, int b_row, int inner, float* out, int out_row) {
    Lane total[R][L];
    for (int r = 0; r < R; ++r)
        for (int l = 0; l < L; ++l) total[r][l] = all(0.0f);
    for (int k = 0; k < inner; ++k) {
        Lane right[L];
        for (int l = 0; l < L; ++l) std::memcpy(&right[l], b + static_cast<int64_t>(k) * b_row + l * LANE, sizeof(Lane));
        for (int r = 0; r < R; ++r) {
            const Lane left = all(a.data[r * a.row + k * a.column]);
            for (int l = 0; l < L; ++l) total[r][l] = multiply_add(left, right[l], total[r][l]);
        }
    }
    for (int r = 0; r < R; ++r)
        for (int l = 0; l < L; ++l) std::memcpy(out + static_cast<int64_t>(r) * out_row + l * LANE, &total[r][l], sizeof(Lane));
}

template <int L>
static void columns(View a, const float* b, int b_row, int rows, int inner, float* out, int out_row) {
    const int most = L == 1 ? ROWS_OF_ONE : ROWS;
    const auto pass = [&](int done) {
        a.data += done * a.row;
        out += static_cast<int64_t>(done) * out_row;
        rows -= done;
    };
    for (; rows >= most; pass(most)) block<L == 1 ? ROWS_OF_ONE : ROWS, L>(a, b, b_row, inner, out, out_row);
    if (rows >= 4) block<4, L>(a, b, b_row, inner, out, out_row), pass(4);
    if (rows >= 2) block<2, L>(a, b, b_row, inner, out, out_row), pass(2);
    if (rows >= 1) block<1, L>(a, b, b_row, inner, out, out_row);
}

// out [rows, width] = a [rows, inner] b [inner, width]. `width` is a multiple of SIXTEEN, and the stride of b and out.
static void product(const View& a, const float* b, int rows, int inner, int width, float* out) {
    int n = 0;
    for (; n + LANES * LANE <= width; n += LANES * LANE) columns<LANES>(a, b + n, width, rows, inner, out + n, width);
    for (; n < width; n += LANE) columns<1>(a, b + n, width, rows, inner, out + n, width);
}

// ---------------------------------------------------------------- attention

static inline int padded(int64_t count) { return static_cast<int>((count + SIXTEEN - 1) / SIXTEEN * SIXTEEN); }

template <class Number>
static inline Number* at(const Vectors& vectors, int64_t row, int64_t head) {
    return static_cast<Number*>(vectors.data) + row * vectors.row + head * vectors.head;
}

// A [places, padded features] copy in float32, times `scale`, with zeros in the padding.
template <class Number>
static void read(const Number* from, int64_t stride, int places, int features, float scale, float* __restrict to) {
    const int width = padded(features);
    for (int t = 0; t < places; ++t, from += stride, to += width) {
        for (int i = 0; i < features; ++i) to[i] = wide(from[i]) * scale;
        for (int i = features; i < width; ++i) to[i] = 0.0f;
    }
}

// The transposed [features, padded places] of a copy that `read` made, with zeros in the padding.
static void transpose(const float* from, int places, int features, float* to) {
    const int from_width = padded(features), width = padded(places);
    for (int i = 0; i < features; ++i, to += width) {
        for (int s = 0; s < places; ++s) to[s] = from[static_cast<int64_t>(s) * from_width + i];
        for (int s = places; s < width; ++s) to[s] = 0.0f;
    }
}

template <class Number>
static void write(const float* from, int places, int features, float scale, Number* __restrict to, int64_t stride) {
    const int width = padded(features);
    for (int t = 0; t < places; ++t, from += width, to += stride)
        for (int i = 0; i < features; ++i) to[i] = narrow<Number>(from[i] * scale);
}

const float BARRED = -1e29f;

// Softmax of `count` energies x with their bias, as `to`. The padding up to `width` becomes 0, and so does a row without
// a key.
static void weigh(float* __restrict x, const float* bias, int count, int width, float* __restrict to) {
    std::memcpy(to, bias, count * sizeof(float));
    std::fill(to + count, to + width, 2 * BARRED);
    Sixteen largest = Sixteen{} + BARRED;
    for (int begin = 0; begin < width; begin += SIXTEEN) {
        const Sixteen energies = load(x + begin) + load(to + begin);
        std::memcpy(x + begin, &energies, sizeof energies);
        largest = energies > largest ? energies : largest;
    }
    float most = BARRED;
    for (int i = 0; i < SIXTEEN; ++i) most = largest[i] > most ? largest[i] : most;
    for (int i = 0; i < width; ++i) to[i] = exponential(x[i] - most);
    for (int i = 0; i < width; ++i) to[i] *= x[i] > BARRED ? 1.0f : 0.0f;
    const float total = moment<1>(to, 0.0f, width);
    const float scale = total > 0 ? 1.0f / total : 0.0f;
    for (int i = 0; i < width; ++i) to[i] *= scale;
}

// x *= y, for a multiple of SIXTEEN numbers.
static void multiply(float* __restrict x, const float* y, int count) {
    for (int begin = 0; begin < count; begin += SIXTEEN)
        for (int i = begin; i < begin + SIXTEEN; ++i) x[i] *= y[i];
}

// The memory of one pair of a row and a head, kept by each thread.
struct Room {
    std::vector<float> query, key, value, turned, context, weights, other;

    void fit(int queries, int keys, int features) {
        const size_t D = padded(features), S = padded(keys), T = queries;
        const auto grow = [](std::vector<float>& of, size_t size) {
            if (of.size() < size) of.resize(size);
        };
        grow(query, std::max(T, static_cast<size_t>(keys)) * D);
        for (auto* each : {&key, &value}) grow(*each, keys * D);
        grow(turned, static_cast<size_t>(features) * S);
        grow(context, std::max(T, static_cast<size_t>(keys)) * D);
        for (auto* each : {&weights, &other}) grow(*each, T * S);
    }
};

static Room& room_of(const Attention& of) {
    static thread_local Room room;
    room.fit(static_cast<int>(of.queries), static_cast<int>(of.keys), static_cast<int>(of.features));
    return room;
}

template <class Number>
static void attend(const Attention& of, int64_t row, int64_t head) {
    const int T = static_cast<int>(of.queries), S = static_cast<int>(of.keys), D = static_cast<int>(of.features);
    const int width = padded(S);
    Room& room = room_of(of);
    read(at<Number>(of.query, row, head), of.query.place, T, D, of.scale, room.query.data());
    read(at<Number>(of.key, row, head), of.key.place, S, D, 1.0f, room.key.data());
    read(at<Number>(of.value, row, head), of.value.place, S, D, 1.0f, room.value.data());
    transpose(room.key.data(), S, D, room.turned.data());
    product({room.query.data(), padded(D), 1}, room.turned.data(), T, D, width, room.weights.data());
    const float* bias = of.bias + row * of.bias_row + head * of.bias_head;
    const int64_t first = (row * of.heads + head) * T;
    for (int t = 0; t < T; ++t) {
        float *own = room.weights.data() + t * width, *weights = of.weights + (first + t) * width;
        weigh(own, bias + t * of.bias_query, S, width, weights);
        factors(of_row(of.dropped.seed, first + t), 0, of.dropped, width, own);
        multiply(own, weights, width);
    }
    product({room.weights.data(), width, 1}, room.value.data(), T, S, padded(D), room.context.data());
    write(room.context.data(), T, D, 1.0f, at<Number>(of.context, row, head), of.context.place);
}

template <class Number>
static void attend_backward(
    const Attention& of, const Vectors& query, const Vectors& key, const Vectors& value, int64_t row, int64_t head) {
    const int T = static_cast<int>(of.queries), S = static_cast<int>(of.keys), D = static_cast<int>(of.features);
    const int width = padded(S), features = padded(D);
    Room& room = room_of(of);
    float *weights = room.weights.data(), *energies = room.other.data();  // energies: their gradients
    read(at<Number>(of.context, row, head), of.context.place, T, D, 1.0f, room.context.data());
    read(at<Number>(of.value, row, head), of.value.place, S, D, 1.0f, room.value.data());
    transpose(room.value.data(), S, D, room.turned.data());
    product({room.context.data(), features, 1}, room.turned.data(), T, D, width, energies);
    const int64_t first = (row * of.heads + head) * T;
    for (int t = 0; t < T; ++t) {
        const float* weight = of.weights + (first + t) * width;
        float *own = weights + t * width, *energy = energies + t * width;
        factors(of_row(of.dropped.seed, first + t), 0, of.dropped, width, own);
        multiply(energy, own, width);
        multiply(own, weight, width);
        const float mean = dot(energy, weight, width);
        for (int begin = 0; begin < width; begin += SIXTEEN)
            for (int s = begin; s < begin + SIXTEEN; ++s) energy[s] = weight[s] * (energy[s] - mean);
    }
    product({weights, 1, width}, room.context.data(), S, T, features, room.value.data());
    write(room.value.data(), S, D, 1.0f, at<Number>(value, row, head), value.place);
    read(at<Number>(of.key, row, head), of.key.place, S, D, 1.0f, room.key.data());
    product({energies, width, 1}, room.key.data(), T, S, features, room.context.data());
    write(room.context.data(), T, D, of.scale, at<Number>(query, row, head), query.place);
    read(at<Number>(of.query, row, head), of.query.place, T, D, of.scale, room.query.data());
    product({energies, 1, width}, room.query.data(), S, T, features, room.key.data());
    write(room.key.data(), S, D, 1.0f, at<Number>(key, row, head), key.place);
}

// ---------------------------------------------------------------- dropout

const int64_t PIECE = 1 << 13;  // numbers of a row of `Dropped`
const int AT_ONCE = 512;

// Calls work(first, count, factors) for pieces of `count` numbers.
template <class Work>
static void in_pieces(int64_t count, int threads, const Dropped& of, const Work& work) {
    share((count + PIECE - 1) / PIECE, threads, [&](int64_t piece) {
        const uint32_t own = of_row(of.seed, piece);
        const int64_t begin = piece * PIECE;
        const int size = static_cast<int>(std::min(PIECE, count - begin));
        float kept[AT_ONCE];
        for (int first = 0; first < size; first += AT_ONCE) {
            factors(own, first, of, AT_ONCE, kept);
            work(begin + first, std::min(AT_ONCE, size - first), kept);
        }
    });
}

template <class Number>
static inline Number* from(const Numbers& numbers, int64_t first) {
    return static_cast<Number*>(numbers.data) + first;
}

template <class In, class Out>
static void drop(const Numbers& x, const Numbers* base, const Numbers& y, int64_t count, int threads, const Dropped& of) {
    in_pieces(count, threads, of, [&](int64_t first, int some, const float* kept) {
        const In* in = from<In>(x, first);
        Out* __restrict out = from<Out>(y, first);
        if (base == nullptr) {
            for (int i = 0; i < some; ++i) out[i] = narrow<Out>(wide(in[i]) * kept[i]);
        } else {
            const Out* below = from<Out>(*base, first);
            for (int i = 0; i < some; ++i) out[i] = narrow<Out>(wide(below[i]) + wide(in[i]) * kept[i]);
        }
    });
}

template <class Number>
static void drop_rectified(const Numbers& x, const Numbers& y, int64_t count, int threads, const Dropped& of) {
    in_pieces(count, threads, of, [&](int64_t first, int some, const float* kept) {
        const Number* in = from<Number>(x, first);
        Number* __restrict out = from<Number>(y, first);
        for (int i = 0; i < some; ++i) {
            const float positive = wide(in[i]) > 0 ? wide(in[i]) : 0.0f;
            out[i] = narrow<Number>(positive * kept[i]);
        }
    });
}

template <class Number>
static void drop_rectified_backward(
    const Numbers& gradient, const Numbers& y, const Numbers& to, int64_t count, int threads, float scale) {
    share((count + PIECE - 1) / PIECE, threads, [&](int64_t piece) {
        const int64_t first = piece * PIECE;
        const int some = static_cast<int>(std::min(PIECE, count - first));
        const Number *in = from<Number>(gradient, first), *seen = from<Number>(y, first);
        Number* __restrict out = from<Number>(to, first);
        for (int i = 0; i < some; ++i) {
            const float moved = wide(in[i]) * scale;  // outside the condition, which the compiler would not vectorise
            out[i] = narrow<Number>(wide(seen[i]) > 0 ? moved : 0.0f);
        }
    });
}

// ---------------------------------------------------------------- cross-entropy

template <class Number>
static void cross_entropy(const Numbers& logits, int64_t row, int64_t target, int words, float smoothing,
    const Numbers& gradient, double& loss, double& smooth) {
    static thread_local std::vector<float> room;
    const int width = padded(words);
    if (room.size() < static_cast<size_t>(width)) room.resize(width);
    float* __restrict x = room.data();
    const Number* in = from<Number>(logits, row * words);
    for (int i = 0; i < words; ++i) x[i] = wide(in[i]);
    const float largest = largest_of<false>(x, words);
    const float mean = moment<1>(x, largest, words) / words;  // of the differences, which are smaller
    const float of_target = x[target] - largest;
    for (int j = 0; j < words; ++j) x[j] = exponential(x[j] - largest);
    const float total = moment<1>(x, 0.0f, words), scale = 1.0f / total, everywhere = smoothing / words;
    const double normaliser = std::log(static_cast<double>(total));
    loss = normaliser - of_target;
    smooth = normaliser - mean;
    Number* __restrict out = from<Number>(gradient, row * words);
    const float there = x[target] * scale - everywhere - (1.0f - smoothing);
    for (int j = 0; j < words; ++j) out[j] = narrow<Number>(x[j] * scale - everywhere);
    out[target] = narrow<Number>(there);
}

}  // namespace transduce

using namespace transduce;

void transduce_set_parallel(void* address) { parallel = reinterpret_cast<Parallel>(address); }

int64_t transduce_attend(const Attention* of) {
    return guarded([=]() -> int64_t {
        share(of->rows * of->heads, of->threads, [of](int64_t part) {
            const int64_t row = part / of->heads, head = part % of->heads;
            of->halves ? attend<Half>(*of, row, head) : attend<float>(*of, row, head);
        });
        return DONE;
    });
}

int64_t transduce_attend_backward(const Attention* of, const Vectors* query, const Vectors* key, const Vectors* value) {
    return guarded([=]() -> int64_t {
        share(of->rows * of->heads, of->threads, [=](int64_t part) {
            const int64_t row = part / of->heads, head = part % of->heads;
            of->halves ? attend_backward<Half>(*of, *query, *key, *value, row, head)
                       : attend_backward<float>(*of, *query, *key, *value, row, head);
        });
        return DONE;
    });
}

void transduce_drop(
    const Numbers* x, const Numbers* base, const Numbers* y, int64_t count, int32_t threads, const Dropped* of) {
    const auto work =
        x->halves ? (y->halves ? drop<Half, Half> : drop<Half, float>) : (y->halves ? drop<float, Half> : drop<float, float>);
    work(*x, base, *y, count, threads, *of);
}

void transduce_drop_rectified(const Numbers* x, const Numbers* y, int64_t count, int32_t threads, const Dropped* of) {
    (x->halves ? drop_rectified<Half> : drop_rectified<float>)(*x, *y, count, threads, *of);
}

void transduce_drop_rectified_backward(
    const Numbers* gradient, const Numbers* y, const Numbers* to, int64_t count, int32_t threads, const Dropped* of) {
    const auto work = y->halves ? drop_rectified_backward<Half> : drop_rectified_backward<float>;
    work(*gradient, *y, *to, count, threads, of->scale);
}

int64_t transduce_cross_entropy(const Numbers* logits, const int64_t* targets, int64_t rows, int64_t words, float smoothing,
    int32_t threads, const Numbers* gradient, double* losses, double* smooth) {
    return guarded([=]() -> int64_t {
        const auto work = logits->halves ? cross_entropy<Half> : cross_entropy<float>;
        share(rows, threads, [=](int64_t row) {
            const int size = static_cast<int>(words);
            work(*logits, row, targets[row], size, smoothing, *gradient, losses[row], smooth[row]);
        });
        return DONE;
    });
}

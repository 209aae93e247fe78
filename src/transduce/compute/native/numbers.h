// Functions of single numbers and of rows of numbers, in float32.
//
// The loops are plain so that the compiler turns them into vector instructions. Sums have 16 parts, one for each element
// of a vector, which are added at the end. This order is fixed, so a row's result never depends on another row.
#ifndef TRANSDUCE_NUMBERS_H
#define TRANSDUCE_NUMBERS_H

#include <cmath>
#include <cstdint>
#include <cstring>

namespace transduce {

const int SIXTEEN = 16;
typedef float Sixteen __attribute__((vector_size(64)));  // the compiler splits it where registers are smaller
typedef float Eight __attribute__((vector_size(32)));
typedef float Four __attribute__((vector_size(16)));

// What one instruction compares. Compilers split a comparison of larger vectors into single numbers.
#if defined(__AVX512F__)
typedef Sixteen Register;
#elif defined(__AVX__)
typedef Eight Register;
#else
typedef Four Register;
#endif
const int AT_A_TIME = sizeof(Register) / sizeof(float);
typedef int32_t Integers __attribute__((vector_size(sizeof(Register))));
typedef uint32_t Naturals __attribute__((vector_size(sizeof(Register))));

// NaN is no number that C++ converts; a register converts it to some number, and the result stays NaN.
static inline int32_t to_integers(float x) { return x == x ? static_cast<int32_t>(x) : 0; }
static inline Integers to_integers(Register x) { return __builtin_convertvector(x, Integers); }
static inline float to_reals(int32_t x) { return static_cast<float>(x); }
static inline Register to_reals(Integers x) { return __builtin_convertvector(x, Register); }

// The bits of 2^n in float32. Of NaN, n may be any number, so the shift is unsigned.
static inline int32_t power_bits(int32_t n) { return static_cast<int32_t>(static_cast<uint32_t>(n + 127) << 23); }
static inline Integers power_bits(Integers n) { return (Integers)((Naturals)(n + 127) * (1u << 23)); }

// e^x for x <= 88: 2^n times a polynomial (Cephes, expf). Smaller than -87 gives about 0. Unlike std::exp, it becomes
// vector instructions. Of one number or of a register of them.
template <class Reals>
static inline Reals exponential(Reals x) {
    x = x < -87.0f ? Reals{} - 87.0f : x;
    x = x > 88.0f ? Reals{} + 88.0f : x;
    const Reals shifted = x * 1.44269504088896341f;
    const auto n = to_integers(shifted + (shifted < 0 ? Reals{} - 0.5f : Reals{} + 0.5f));
    const Reals whole = to_reals(n);
    const Reals rest = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
    Reals y = Reals{} + 1.9875691500e-4f;
    y = y * rest + 1.3981999507e-3f;
    y = y * rest + 8.3334519073e-3f;
    y = y * rest + 4.1665795894e-2f;
    y = y * rest + 1.6666665459e-1f;
    y = y * rest + 5.0000001201e-1f;
    y = y * rest * rest + rest + 1.0f;
    const auto bits = power_bits(n);
    Reals power;
    std::memcpy(&power, &bits, sizeof power);
    return y * power;
}

// The error function, with an absolute error below 2e-7 (Abramowitz and Stegun 1964, 7.1.26).
static inline float error_function(float x) {
    const float size = x < 0 ? -x : x;
    const float t = 1.0f / (1.0f + 0.3275911f * size);
    float y = 1.061405429f;
    y = y * t - 1.453152027f;
    y = y * t + 1.421413741f;
    y = y * t - 0.284496736f;
    y = y * t + 0.254829592f;
    y = 1.0f - y * t * exponential(-size * size);
    return x < 0 ? -y : y;
}

static inline float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }

// The hyperbolic tangent, with an absolute error below 2e-7.
static inline float tangent(float x) { return 1.0f - 2.0f / (1.0f + exponential(2.0f * x)); }

enum Activation { NONE = 0, RELU = 1, GELU = 2, SWISH = 3, TANH = 4 };

static inline void activate(float* x, int count, int activation) {
    if (activation == RELU)
        for (int i = 0; i < count; ++i) x[i] = x[i] > 0 ? x[i] : 0;
    else if (activation == GELU)
        for (int i = 0; i < count; ++i) x[i] = 0.5f * x[i] * (1.0f + error_function(x[i] * 0.70710678118f));
    else if (activation == SWISH)
        for (int i = 0; i < count; ++i) x[i] = x[i] / (1.0f + exponential(-x[i]));
    else if (activation == TANH)
        for (int i = 0; i < count; ++i) x[i] = tangent(x[i]);
}

static inline Sixteen load(const float* at) {
    Sixteen found;
    std::memcpy(&found, at, sizeof found);
    return found;
}

static inline float sum(const Sixteen& parts) {
    Eight eight[2];
    std::memcpy(eight, &parts, sizeof eight);
    eight[0] += eight[1];
    Four four[2];
    std::memcpy(four, eight, sizeof four);
    four[0] += four[1];
    return (four[0][0] + four[0][2]) + (four[0][1] + four[0][3]);
}

static inline float dot(const float* a, const float* b, int count) {
    Sixteen parts = {};
    int i = 0;
    for (; i + SIXTEEN <= count; i += SIXTEEN) parts += load(a + i) * load(b + i);
    float total = sum(parts);
    for (; i < count; ++i) total += a[i] * b[i];
    return total;
}

// The sum of (x - mean)^power, for power 1 or 2.
template <int power>
static inline float moment(const float* x, float mean, int count) {
    Sixteen parts = {};
    int i = 0;
    for (; i + SIXTEEN <= count; i += SIXTEEN) {
        const Sixteen rest = load(x + i) - mean;
        parts += power == 1 ? rest : rest * rest;
    }
    float total = sum(parts);
    for (; i < count; ++i) total += power == 1 ? x[i] - mean : (x[i] - mean) * (x[i] - mean);
    return total;
}

static inline void add(float* x, const float* y, int count) {
    for (int i = 0; i < count; ++i) x[i] += y[i];
}

static inline void add_scaled(float* x, const float* y, float scale, int count) {
    for (int i = 0; i < count; ++i) x[i] += scale * y[i];
}

// A gated linear unit (Dauphin et al. 2017): a * sigmoid(b) of the halves a and b of `halves` [2, count]. `to` is other
// memory, which lets the compiler use vector instructions.
static inline void gate(const float* halves, float* __restrict to, int count) {
    const float* gates = halves + count;
    for (int i = 0; i < count; ++i) to[i] = halves[i] * sigmoid(gates[i]);
}

// The largest of numbers, or of their absolute values. NaN is never the largest, unless it is the first number.
template <bool absolute>
static inline float largest_of(const float* x, int64_t count) {
    Register parts = Register{} + (absolute ? 0.0f : x[0]);
    int64_t i = 0;
    for (; i + AT_A_TIME <= count; i += AT_A_TIME) {
        Register some;
        std::memcpy(&some, x + i, sizeof some);
        if (absolute) some = some < 0 ? -some : some;
        parts = some > parts ? some : parts;
    }
    float largest = parts[0];
    for (int j = 1; j < AT_A_TIME; ++j) largest = parts[j] > largest ? parts[j] : largest;
    for (; i < count; ++i) {
        const float one = absolute ? std::fabs(x[i]) : x[i];
        largest = one > largest ? one : largest;
    }
    return largest;
}

// e^x of some numbers, at most 88, in place.
static inline void exponentials(float* x, int count) {
    Register some = {};
    int i = 0;
    for (; i + AT_A_TIME <= count; i += AT_A_TIME) {
        std::memcpy(&some, x + i, sizeof some);
        some = exponential(some);
        std::memcpy(x + i, &some, sizeof some);
    }
    for (int j = i; j < count; ++j) some[j - i] = x[j];  // the last ones share a register with old numbers
    some = exponential(some);
    for (int j = i; j < count; ++j) x[j] = some[j - i];
}

// Turns rows [rows, count] of energies into weights that sum to 1 in each row.
static inline void softmax(float* x, int rows, int count) {
    for (int r = 0; r < rows; ++r) {
        float* row = x + r * count;
        const float largest = largest_of<false>(row, count);
        for (int i = 0; i < count; ++i) row[i] -= largest;
    }
    exponentials(x, rows * count);
    for (int r = 0; r < rows; ++r) {
        float* row = x + r * count;
        const float scale = 1.0f / moment<1>(row, 0.0f, count);
        for (int i = 0; i < count; ++i) row[i] *= scale;
    }
}

static inline void softmax(float* x, int count) { softmax(x, 1, count); }

// Layer norm of one row (Ba et al. 2016). `to` may be `from`.
static inline void layer_norm(const float* from, float* to, const float* weight, const float* bias, float eps, int count) {
    const float mean = moment<1>(from, 0.0f, count) / count;
    const float scale = 1.0f / std::sqrt(moment<2>(from, mean, count) / count + eps);
    for (int i = 0; i < count; ++i) to[i] = (from[i] - mean) * scale * weight[i] + bias[i];
}

// RMS norm of one row (Zhang and Sennrich 2019). `to` may be `from`.
static inline void rms_norm(const float* from, float* to, const float* weight, float eps, int count) {
    const float scale = 1.0f / std::sqrt(dot(from, from, count) / count + eps);
    for (int i = 0; i < count; ++i) to[i] = from[i] * scale * weight[i];
}

}  // namespace transduce

#endif

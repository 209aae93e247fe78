// The sums of products of one panel, for a few rows at a time: the only code that differs between processors.
//
// `x` are the stored activations of R rows, `stride` bytes apart. `weights` is a panel of Matrix::integers (or floats).
// `sums` receives [R][PANEL] sums. All integer variants give the same sums, bit for bit.
#ifndef TRANSDUCE_SUMS_H
#define TRANSDUCE_SUMS_H

#include "matrix.h"

#if defined(__AVX512VNNI__) || defined(__AVX2__)
#include <immintrin.h>
#elif defined(__wasm_simd128__)
#include <wasm_simd128.h>
#endif

#define ALWAYS_INLINE inline __attribute__((always_inline))

namespace transduce {

static inline int32_t four_bytes(const uint8_t* at) {
    int32_t word;
    std::memcpy(&word, at, sizeof word);
    return word;
}

#if defined(__AVX512VNNI__)

const int MOST_ROWS = 6;  // 24 registers for sums, 4 for weights, 1 for activations: 29 of 32
const int AHEAD = 1024;   // bytes of weights that are fetched early: with some rows, products hide a part of the wait

// The sums of R rows in 4 registers for each. It is nested, one row in the other, because compilers keep an array in
// memory and store it in every iteration.
template <int R>
struct Registers {
    Registers<R - 1> rows_before;
    __m512i a, b, c, d;
};
template <>
struct Registers<0> {};

static ALWAYS_INLINE void clear(Registers<0>&) {}
static ALWAYS_INLINE void add_products(Registers<0>&, const uint8_t*, int, const __m512i*) {}
static ALWAYS_INLINE void store(const Registers<0>&, int32_t*) {}

template <int R>
static ALWAYS_INLINE void clear(Registers<R>& total) {
    clear(total.rows_before);
    total.a = total.b = total.c = total.d = _mm512_setzero_si512();
}

template <int R>
static ALWAYS_INLINE void add_products(Registers<R>& total, const uint8_t* x, int stride, const __m512i* weight) {
    add_products(total.rows_before, x, stride, weight);
    const __m512i activation = _mm512_set1_epi32(four_bytes(x + (R - 1) * stride));
    total.a = _mm512_dpbusd_epi32(total.a, activation, weight[0]);
    total.b = _mm512_dpbusd_epi32(total.b, activation, weight[1]);
    total.c = _mm512_dpbusd_epi32(total.c, activation, weight[2]);
    total.d = _mm512_dpbusd_epi32(total.d, activation, weight[3]);
}

template <int R>
static ALWAYS_INLINE void store(const Registers<R>& total, int32_t* sums) {
    store(total.rows_before, sums);
    int32_t* to = sums + (R - 1) * PANEL;
    _mm512_storeu_si512(to, total.a);
    _mm512_storeu_si512(to + 16, total.b);
    _mm512_storeu_si512(to + 32, total.c);
    _mm512_storeu_si512(to + 48, total.d);
}

template <int R>
static inline void integer_sums(const uint8_t* x, int stride, const int8_t* weights, const Matrix& matrix, int32_t* sums) {
    Registers<R> total;
    clear(total);
    for (int g = 0; g < matrix.groups; ++g, x += GROUP, weights += PANEL * GROUP) {
        for (int line = 0; line < 4; ++line) _mm_prefetch(weights + AHEAD + 64 * line, _MM_HINT_T0);
        const __m512i weight[4] = {_mm512_load_si512(weights), _mm512_load_si512(weights + 64),
            _mm512_load_si512(weights + 128), _mm512_load_si512(weights + 192)};
        add_products(total, x, stride, weight);
    }
    store(total, sums);
}

#elif defined(__AVX2__)

const int MOST_ROWS = 8;
const int NEAR = 64;  // groups: their weights stay in the first cache while all rows read them

// Adds the products of one row with some groups to its sums, which fill 8 registers. VPMADDUBSW multiplies unsigned by
// signed bytes and adds pairs in 16 bits. Of a narrow matrix (matrix.h), no pair is too large. Otherwise it multiplies
// |x| by sign(x) w, both at most 127, so no pair exceeds 32,258. Nothing saturates, and the sums are exact.
template <bool narrow>
static inline void add_groups(const uint8_t* x, const int8_t* weights, int groups, int32_t* sums) {
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i total[8];
    for (int c = 0; c < 8; ++c) total[c] = _mm256_load_si256(reinterpret_cast<const __m256i*>(sums + 8 * c));
    for (int g = 0; g < groups; ++g, x += GROUP, weights += PANEL * GROUP) {
        const __m256i activation = _mm256_set1_epi32(four_bytes(x)), size = _mm256_abs_epi8(activation);
        for (int c = 0; c < 8; ++c) {
            const __m256i weight = _mm256_load_si256(reinterpret_cast<const __m256i*>(weights + 32 * c));
            const __m256i pairs = narrow ? _mm256_maddubs_epi16(activation, weight)
                                         : _mm256_maddubs_epi16(size, _mm256_sign_epi8(weight, activation));
            total[c] = _mm256_add_epi32(total[c], _mm256_madd_epi16(pairs, ones));
        }
    }
    for (int c = 0; c < 8; ++c) _mm256_store_si256(reinterpret_cast<__m256i*>(sums + 8 * c), total[c]);
}

template <int R>
static inline void integer_sums(const uint8_t* x, int stride, const int8_t* weights, const Matrix& matrix, int32_t* sums) {
    for (int i = 0; i < R * PANEL; ++i) sums[i] = 0;
    for (int first = 0; first < matrix.groups; first += NEAR) {
        const int count = matrix.groups - first < NEAR ? matrix.groups - first : NEAR;
        const int8_t* near = weights + static_cast<size_t>(first) * PANEL * GROUP;
        for (int r = 0; r < R; ++r) {
            const uint8_t* row = x + r * stride + first * GROUP;
            if (matrix.narrow)
                add_groups<true>(row, near, count, sums + r * PANEL);
            else
                add_groups<false>(row, near, count, sums + r * PANEL);
        }
    }
}

#elif defined(__wasm_simd128__)

const int MOST_ROWS = 2;
const int EIGHT_OUTPUTS = 8;  // at a time: 8 registers for sums, 1 for weights, 2 for activations: 11 of 16 on x86-64

// A product of 16-bit integers adds two neighbours. So the four products of an output become two sums, which are added at
// the end.
template <int R>
static inline void integer_sums(const uint8_t* x, int stride, const int8_t* weights, const Matrix& matrix, int32_t* sums) {
    for (int first = 0; first < PANEL; first += EIGHT_OUTPUTS) {
        v128_t total[R][4];
        for (int r = 0; r < R; ++r)
            for (int c = 0; c < 4; ++c) total[r][c] = wasm_i32x4_splat(0);
        const int8_t* block = weights + first * GROUP;
        for (int g = 0; g < matrix.groups; ++g, block += PANEL * GROUP) {
            v128_t activation[R];
            for (int r = 0; r < R; ++r)
                activation[r] = wasm_i16x8_extend_low_i8x16(wasm_v128_load32_splat(x + r * stride + g * GROUP));
            for (int c = 0; c < 4; ++c) {
                const v128_t weight = wasm_i16x8_load8x8(block + 8 * c);
                for (int r = 0; r < R; ++r)
                    total[r][c] = wasm_i32x4_add(total[r][c], wasm_i32x4_dot_i16x8(weight, activation[r]));
            }
        }
        for (int r = 0; r < R; ++r)
            for (int c = 0; c < 4; c += 2) {
                const v128_t one = total[r][c], other = total[r][c + 1];
                const v128_t even = wasm_i32x4_shuffle(one, other, 0, 2, 4, 6),
                             odd = wasm_i32x4_shuffle(one, other, 1, 3, 5, 7);
                wasm_v128_store(sums + r * PANEL + first + 2 * c, wasm_i32x4_add(even, odd));
            }
    }
}

#else

const int MOST_ROWS = 2;

template <int R>
static inline void integer_sums(const uint8_t* x, int stride, const int8_t* weights, const Matrix& matrix, int32_t* sums) {
    for (int i = 0; i < R * PANEL; ++i) sums[i] = 0;
    for (int g = 0; g < matrix.groups; ++g) {
        const int8_t* block = weights + static_cast<size_t>(g) * PANEL * GROUP;
        for (int r = 0; r < R; ++r) {
            const int8_t* four = reinterpret_cast<const int8_t*>(x + r * stride + g * GROUP);
            for (int o = 0; o < PANEL; ++o) {
                int32_t total = 0;
                for (int i = 0; i < GROUP; ++i) total += four[i] * block[o * GROUP + i];
                sums[r * PANEL + o] += total;
            }
        }
    }
}

#endif

// The same in float32. The order of the additions is that of the inputs for every R, so a row's sums do not depend on R.
template <int R>
static inline void float_sums(const float* x, int stride, const float* weights, int inputs, float* sums) {
#if defined(__AVX512VNNI__)
    __m512 total[R][4];
    for (int r = 0; r < R; ++r)
        for (int c = 0; c < 4; ++c) total[r][c] = _mm512_setzero_ps();
    for (int i = 0; i < inputs; ++i) {
        __m512 weight[4];
        for (int c = 0; c < 4; ++c) weight[c] = _mm512_load_ps(weights + static_cast<size_t>(i) * PANEL + 16 * c);
        for (int r = 0; r < R; ++r) {
            const __m512 activation = _mm512_set1_ps(x[r * stride + i]);
            for (int c = 0; c < 4; ++c) total[r][c] = _mm512_fmadd_ps(activation, weight[c], total[r][c]);
        }
    }
    for (int r = 0; r < R; ++r)
        for (int c = 0; c < 4; ++c) _mm512_storeu_ps(sums + r * PANEL + 16 * c, total[r][c]);
#elif defined(__AVX2__)
    for (int r = 0; r < R; ++r) {
        __m256 total[8];
        for (int c = 0; c < 8; ++c) total[c] = _mm256_setzero_ps();
        for (int i = 0; i < inputs; ++i) {
            const __m256 activation = _mm256_set1_ps(x[r * stride + i]);
            for (int c = 0; c < 8; ++c) {
                const __m256 weight = _mm256_load_ps(weights + static_cast<size_t>(i) * PANEL + 8 * c);
                total[c] = _mm256_add_ps(total[c], _mm256_mul_ps(activation, weight));
            }
        }
        for (int c = 0; c < 8; ++c) _mm256_storeu_ps(sums + r * PANEL + 8 * c, total[c]);
    }
#elif defined(__wasm_simd128__)
    for (int first = 0; first < PANEL; first += 16) {
        v128_t total[R][4];
        for (int r = 0; r < R; ++r)
            for (int c = 0; c < 4; ++c) total[r][c] = wasm_f32x4_splat(0);
        const float* row = weights + first;
        for (int i = 0; i < inputs; ++i, row += PANEL) {
            v128_t activation[R];
            for (int r = 0; r < R; ++r) activation[r] = wasm_v128_load32_splat(x + r * stride + i);
            for (int c = 0; c < 4; ++c) {
                const v128_t weight = wasm_v128_load(row + 4 * c);
                for (int r = 0; r < R; ++r) total[r][c] = wasm_f32x4_add(total[r][c], wasm_f32x4_mul(activation[r], weight));
            }
        }
        for (int r = 0; r < R; ++r)
            for (int c = 0; c < 4; ++c) wasm_v128_store(sums + r * PANEL + first + 4 * c, total[r][c]);
    }
#else
    for (int i = 0; i < R * PANEL; ++i) sums[i] = 0;
    for (int i = 0; i < inputs; ++i)
        for (int r = 0; r < R; ++r) {
            const float activation = x[r * stride + i];
            for (int o = 0; o < PANEL; ++o) sums[r * PANEL + o] += activation * weights[static_cast<size_t>(i) * PANEL + o];
        }
#endif
}

}  // namespace transduce

#endif

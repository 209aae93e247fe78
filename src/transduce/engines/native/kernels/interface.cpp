// The shared functions of the interface: the processor's instructions, and matrices.

#include "interface.h"

#include <algorithm>

#include "team.h"

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

void transduce_set_threads(int32_t threads) { Team::of_process().set_threads(threads); }

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

void transduce_multiply(const Matrix* matrix, const float* x, float* y, int64_t rows, int32_t activation) {
    static thread_local QuantisedRows quantised;
    multiply(*matrix, x, y, static_cast<int>(rows), activation, quantised);
}

void transduce_multiply_real(
    const Matrix* matrix, const float* x, float* y, const int64_t* lengths, int64_t rows, int64_t longest) {
    for (int64_t r = 0; r < rows; ++r) {
        float* to = y + r * longest * matrix->outputs;
        transduce_multiply(matrix, x + r * longest * matrix->inputs, to, lengths[r], NONE);
        std::fill(to + lengths[r] * matrix->outputs, to + longest * matrix->outputs, 0.0f);
    }
}

void transduce_mean(
    const float* x, float* y, const int64_t* lengths, int64_t rows, int64_t longest, int64_t width) {
    for (int64_t r = 0; r < rows; ++r, x += longest * width, y += width) {
        std::fill(y, y + width, 0.0f);
        for (int64_t s = 0; s < lengths[r]; ++s) add(y, x + s * width, static_cast<int>(width));
        for (int64_t i = 0; i < width && lengths[r] > 0; ++i) y[i] /= static_cast<float>(lengths[r]);
    }
}

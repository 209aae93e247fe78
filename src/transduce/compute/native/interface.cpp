// The shared functions of the interface: the processor's instructions, and matrices.

#include "interface.h"

#include <algorithm>
#include <memory>

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

int32_t transduce_version() { return VERSION; }

void transduce_set_threads(int32_t threads) { Team::of_process().set_threads(threads); }

template <class Pack>
static Matrix* packed(int32_t outputs, int32_t inputs, const float* bias, const Pack& pack) {
    try {
        std::unique_ptr<Matrix> matrix(new Matrix(outputs, inputs, bias));
        pack(*matrix);
        return matrix.release();
    } catch (const std::exception&) {
        return nullptr;
    }
}

Matrix* transduce_pack_integers(
    const int8_t* weight, const float* scale, const float* bias, int32_t outputs, int32_t inputs) {
    return packed(outputs, inputs, bias, [=](Matrix& matrix) { matrix.pack(weight, scale); });
}

Matrix* transduce_pack_floats(const float* weight, const float* bias, int32_t outputs, int32_t inputs) {
    return packed(outputs, inputs, bias, [=](Matrix& matrix) { matrix.pack(weight); });
}

void transduce_free(Matrix* matrix) { delete matrix; }

static QuantisedRows& quantised_rows() {
    static thread_local QuantisedRows rows;
    return rows;
}

int64_t transduce_multiply(const Matrix* matrix, const float* x, float* y, int64_t rows, int32_t activation) {
    return guarded([=] {
        multiply(*matrix, x, y, static_cast<int>(rows), activation, quantised_rows());
        return DONE;
    });
}

int64_t transduce_multiply_real(
    const Matrix* matrix, const float* x, float* y, const int64_t* lengths, int64_t rows, int64_t longest) {
    return guarded([=] {
        for (int64_t r = 0; r < rows; ++r) {
            float* to = y + r * longest * matrix->outputs;
            const float* from = x + r * longest * matrix->inputs;
            multiply(*matrix, from, to, static_cast<int>(lengths[r]), NONE, quantised_rows());
            std::fill(to + lengths[r] * matrix->outputs, to + longest * matrix->outputs, 0.0f);
        }
        return DONE;
    });
}

void transduce_mean(
    const float* x, float* y, const int64_t* lengths, int64_t rows, int64_t longest, int64_t width) {
    for (int64_t r = 0; r < rows; ++r, x += longest * width, y += width) {
        std::fill(y, y + width, 0.0f);
        for (int64_t s = 0; s < lengths[r]; ++s) add(y, x + s * width, static_cast<int>(width));
        for (int64_t i = 0; i < width && lengths[r] > 0; ++i) y[i] /= static_cast<float>(lengths[r]);
    }
}

// products.h describes the functions.

#include "products.h"

#include <algorithm>

using namespace transduce;

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

void transduce_mean(const float* x, float* y, const int64_t* lengths, int64_t rows, int64_t longest, int64_t width) {
    for (int64_t r = 0; r < rows; ++r, x += longest * width, y += width) {
        std::fill(y, y + width, 0.0f);
        for (int64_t s = 0; s < lengths[r]; ++s) add(y, x + s * width, static_cast<int>(width));
        for (int64_t i = 0; i < width && lengths[r] > 0; ++i) y[i] /= static_cast<float>(lengths[r]);
    }
}

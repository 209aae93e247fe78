// Convolutional networks over grids. grid.h explains the layout.

#include "grid.h"

#include <algorithm>
#include <cmath>

#include "layers.h"

namespace transduce {

// Copies the window around a cell, zeros beyond the grid.
static void copy_window(const Grid& x, int64_t kernel, int64_t row, int64_t column, float* window) {
    const int64_t D = x.features, first = std::max<int64_t>(0, column), last = std::min(x.columns, column + kernel);
    for (int64_t y = row; y < row + kernel; ++y, window += kernel * D) {
        std::fill(window, window + kernel * D, 0.0f);
        if (y < 0 || y >= x.rows) continue;
        const float* from = x.cells.data() + (y * x.columns + first) * D;
        std::copy(from, from + (last - first) * D, window + (first - column) * D);
    }
}

Grid convolved(const Matrix& matrix, int64_t kernel, int64_t stride, const Grid& x, int activation) {
    Grid y = {(x.rows + stride - 1) / stride, (x.columns + stride - 1) / stride, matrix.outputs, {}};
    y.cells.resize(static_cast<size_t>(y.count() * y.features));
    const int64_t wide = kernel * kernel * x.features;
    std::vector<float> windows(static_cast<size_t>(BLOCK * wide));
    QuantisedRows quantised;
    for (int64_t first = 0; first < y.count(); first += BLOCK) {
        const int64_t last = std::min<int64_t>(first + BLOCK, y.count());
        for (int64_t n = first; n < last; ++n)
            copy_window(x, kernel, n / y.columns * stride - kernel / 2, n % y.columns * stride - kernel / 2,
                windows.data() + (n - first) * wide);
        multiply(
            matrix, windows.data(), y.cells.data() + first * y.features, static_cast<int>(last - first), activation, quantised);
    }
    return y;
}

Grid pooled(const Grid& x, int64_t wide) {
    Grid y = {(x.rows + 1) / 2, (x.columns + wide - 1) / wide, x.features, {}};
    y.cells.resize(static_cast<size_t>(y.count() * y.features));
    const int64_t D = x.features;
    for (int64_t r = 0; r < x.rows; ++r)
        for (int64_t c = 0; c < x.columns; ++c) {
            const float* from = x.cells.data() + (r * x.columns + c) * D;
            float* to = y.cells.data() + (r / 2 * y.columns + c / wide) * D;
            for (int64_t d = 0; d < D; ++d) to[d] = std::max(to[d], from[d]);
        }
    return y;
}

void normalise_cells(Grid& x, const float* scale, const float* shift, float epsilon) {
    const int64_t D = x.features, N = x.count();
    std::vector<double> sum(static_cast<size_t>(D)), square(static_cast<size_t>(D));
    for (int64_t n = 0; n < N; ++n)
        for (int64_t d = 0; d < D; ++d) {
            const double cell = x.cells[n * D + d];
            sum[d] += cell;
            square[d] += cell * cell;
        }
    std::vector<float> slope(static_cast<size_t>(D)), start(static_cast<size_t>(D));
    for (int64_t d = 0; d < D; ++d) {
        const double mean = sum[d] / static_cast<double>(N), variance = square[d] / static_cast<double>(N) - mean * mean;
        const double factor = scale[d] / std::sqrt(std::max(0.0, variance) + epsilon);
        slope[d] = static_cast<float>(factor);
        start[d] = static_cast<float>(shift[d] - mean * factor);
    }
    for (int64_t n = 0; n < N; ++n)
        for (int64_t d = 0; d < D; ++d) x.cells[n * D + d] = x.cells[n * D + d] * slope[d] + start[d];
}

std::vector<float> columns_of(const Grid& x) {
    std::vector<float> found(x.cells.size());
    const int64_t D = x.features;
    for (int64_t r = 0; r < x.rows; ++r)
        for (int64_t c = 0; c < x.columns; ++c) {
            const float* from = x.cells.data() + (r * x.columns + c) * D;
            std::copy(from, from + D, found.begin() + (c * x.rows + r) * D);
        }
    return found;
}

}  // namespace transduce

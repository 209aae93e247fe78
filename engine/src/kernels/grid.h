// Convolutional networks over pictures and spectra (wings/signals/modules). Each source is computed alone, with its own
// width, so no number depends on the other sources.
//
// A grid is [rows, columns, features]: the features of a cell are adjacent.
#ifndef TRANSDUCE_GRID_H
#define TRANSDUCE_GRID_H

#include <cstdint>
#include <vector>

#include "products.h"

namespace transduce {

struct Grid {
    int64_t rows, columns, features;
    std::vector<float> cells;

    int64_t count() const { return rows * columns; }
};

// A convolution with zeros around the grid. `matrix` maps a window [kernel, kernel, features] to the new features, and
// `kernel` is odd. Rows and columns are divided by `stride`, rounded up.
Grid convolved(const Matrix& matrix, int64_t kernel, int64_t stride, const Grid& x, int activation);

// The largest of each feature in 2 rows and `wide` columns; sizes are rounded up. Negative numbers become 0.
Grid pooled(const Grid& x, int64_t wide);

// Instance norm (Ulyanov et al. 2016): each feature has mean 0 and variance 1 over the cells, then `scale` and `shift`.
void normalise_cells(Grid& x, const float* scale, const float* shift, float epsilon);

// The features of each column [columns, rows * features], the upper row first.
std::vector<float> columns_of(const Grid& x);

}  // namespace transduce

#endif

// Packs matrices, quantises rows, and multiplies. matrix.h explains the layout.

#include "matrix.h"

#include <algorithm>
#include <cstdlib>
#include <type_traits>

#include "sums.h"
#include "team.h"

namespace transduce {

static const double WORTH_SHARING = 32768;  // products of numbers: some two microseconds
static const int NARROW = 128;              // what the absolute values of two neighbouring weights sum to at most

Matrix::Matrix(int outputs, int inputs, const float* bias_O)
    : outputs(outputs), inputs(inputs), panels((outputs + PANEL - 1) / PANEL), groups((inputs + GROUP - 1) / GROUP),
      quantised(false), narrow(false) {
    const size_t padded = static_cast<size_t>(panels) * PANEL;
    bias.resize(padded);
    std::fill(bias.data(), bias.data() + padded, 0.0f);
    if (bias_O != nullptr) std::copy(bias_O, bias_O + outputs, bias.data());
}

void Matrix::pack(const int8_t* weight_OI, const float* scale_O) {
    const size_t padded = static_cast<size_t>(panels) * PANEL, panel_size = static_cast<size_t>(groups) * GROUP * PANEL;
    quantised = true;
    integers.resize(padded * groups * GROUP);
    scale.resize(padded);
    shift.resize(padded);
    std::fill(integers.data(), integers.data() + padded * groups * GROUP, static_cast<int8_t>(0));
    std::fill(scale.data(), scale.data() + padded, 0.0f);
    std::fill(shift.data(), shift.data() + padded, 0);
    narrow = true;
    for (int o = 0; o < outputs; ++o) {
        const int8_t* row = weight_OI + static_cast<size_t>(o) * inputs;
        for (int i = 0; i < inputs; i += 2)
            if (std::abs(row[i]) + (i + 1 < inputs ? std::abs(row[i + 1]) : 0) > NARROW) narrow = false;
    }
    for (int o = 0; o < outputs; ++o) {
        int8_t* panel = integers.data() + o / PANEL * panel_size;
        int32_t total = 0;
        for (int i = 0; i < inputs; ++i) {
            const int8_t weight = weight_OI[static_cast<size_t>(o) * inputs + i];
            panel[i / GROUP * PANEL * GROUP + o % PANEL * GROUP + i % GROUP] = weight;
            total += weight;
        }
        scale.data()[o] = scale_O[o];
        shift.data()[o] = stored_zero(*this) * total;
    }
}

void Matrix::pack(const float* weight_OI) {
    const size_t padded = static_cast<size_t>(panels) * PANEL;
    floats.resize(padded * inputs);
    std::fill(floats.data(), floats.data() + padded * inputs, 0.0f);
    for (int o = 0; o < outputs; ++o) {
        float* panel = floats.data() + static_cast<size_t>(o / PANEL) * PANEL * inputs;
        for (int i = 0; i < inputs; ++i)
            panel[static_cast<size_t>(i) * PANEL + o % PANEL] = weight_OI[static_cast<size_t>(o) * inputs + i];
    }
}

// A copy of these outputs from panels of `group` inputs each.
template <class T>
static void copy_outputs(const T* from, T* to, const std::vector<int64_t>& some, int groups, int group) {
    const size_t panel_size = static_cast<size_t>(groups) * group * PANEL;
    for (size_t o = 0; o < some.size(); ++o) {
        const T* own = from + some[o] / PANEL * panel_size + some[o] % PANEL * group;
        T* place = to + o / PANEL * panel_size + o % PANEL * group;
        for (int i = 0; i < groups; ++i) std::copy_n(own + i * PANEL * group, group, place + i * PANEL * group);
    }
}

Matrix::Matrix(const Matrix& whole, const std::vector<int64_t>& some)
    : Matrix(static_cast<int>(some.size()), whole.inputs, nullptr) {
    const size_t padded = static_cast<size_t>(panels) * PANEL;
    quantised = whole.quantised;
    narrow = whole.narrow;
    for (size_t o = 0; o < some.size(); ++o) bias.data()[o] = whole.bias.data()[some[o]];
    if (!quantised) {
        floats.resize(padded * inputs);
        copy_outputs(whole.floats.data(), floats.data(), some, inputs, 1);
        return;
    }
    integers.resize(padded * groups * GROUP);
    scale.resize(padded);
    shift.resize(padded);
    copy_outputs(whole.integers.data(), integers.data(), some, groups, GROUP);
    for (size_t o = 0; o < some.size(); ++o) {
        scale.data()[o] = whole.scale.data()[some[o]];
        shift.data()[o] = whole.shift.data()[some[o]];
    }
}

void QuantisedRows::read(const float* x, int rows, int inputs, int zero) {
    stride_ = (inputs + GROUP - 1) / GROUP * GROUP;
    values_.resize(static_cast<size_t>(rows) * stride_);
    scale_.resize(rows);
    for (int r = 0; r < rows; ++r) {
        const float* from = x + static_cast<size_t>(r) * inputs;
        uint8_t* to = values_.data() + static_cast<size_t>(r) * stride_;
        const float largest = largest_of<true>(from, inputs);
        const float to_integers = largest > 0 ? 127.0f / largest : 0.0f;
        scale_[r] = largest / 127.0f;
        for (int i = 0; i < inputs; ++i) {  // infinity and NaN have no integer; the largest of -127 and NaN is -127
            const float within = std::min(127.0f, std::max(-127.0f, from[i] * to_integers));
            to[i] = static_cast<uint8_t>(static_cast<int32_t>(std::rint(within)) + zero);
        }
        for (int i = inputs; i < stride_; ++i) to[i] = static_cast<uint8_t>(zero);
    }
}

// Writes the outputs of one panel of R rows: the sums with their scales and the bias.
static inline void write_panel(
    const Matrix& matrix, int panel, const int32_t* sums, const QuantisedRows& x, int first, int rows, float* y) {
    const int o = panel * PANEL, count = std::min(PANEL, matrix.outputs - o);
    const float *scale = matrix.scale.data() + o, *bias = matrix.bias.data() + o;
    const int32_t* shift = matrix.shift.data() + o;
    for (int r = 0; r < rows; ++r) {
        const float row_scale = x.scale(first + r);
        float* to = y + static_cast<size_t>(first + r) * matrix.outputs + o;
        for (int i = 0; i < count; ++i)
            to[i] = static_cast<float>(sums[r * PANEL + i] - shift[i]) * (row_scale * scale[i]) + bias[i];
    }
}

template <int R>
static inline void multiply_rows(const Matrix& matrix, int panel, const QuantisedRows& x, int first, float* y) {
    alignas(64) int32_t sums[R * PANEL];
    const size_t panel_size = static_cast<size_t>(matrix.groups) * GROUP * PANEL;
    const int8_t* weights = matrix.integers.data() + panel * panel_size;
    integer_sums<R>(x.row(first), x.stride(), weights, matrix, sums);
    write_panel(matrix, panel, sums, x, first, R, y);
}

template <int R>
static inline void multiply_rows(const Matrix& matrix, int panel, const float* x, int first, float* y) {
    alignas(64) float sums[R * PANEL];
    const float* weights = matrix.floats.data() + static_cast<size_t>(panel) * PANEL * matrix.inputs;
    float_sums<R>(x + static_cast<size_t>(first) * matrix.inputs, matrix.inputs, weights, matrix.inputs, sums);
    const int o = panel * PANEL, count = std::min(PANEL, matrix.outputs - o);
    for (int r = 0; r < R; ++r)
        for (int i = 0; i < count; ++i)
            y[static_cast<size_t>(first + r) * matrix.outputs + o + i] = sums[r * PANEL + i] + matrix.bias.data()[o + i];
}

// The last rows of a panel, at most R, in one pass over its weights.
template <class Rows>
static inline void multiply_rest(const Matrix&, int, const Rows&, int, int, float*, std::integral_constant<int, 0>) {}

template <class Rows, int R>
static inline void multiply_rest(
    const Matrix& matrix, int panel, const Rows& x, int first, int rows, float* y, std::integral_constant<int, R>) {
    if (rows == R)
        multiply_rows<R>(matrix, panel, x, first, y);
    else
        multiply_rest(matrix, panel, x, first, rows, y, std::integral_constant<int, R - 1>());
}

// All rows of a panel, MOST_ROWS at a time, then the rest. The panel stays in the first cache meanwhile.
template <class Rows>
static void multiply_panel(const Matrix& matrix, int panel, const Rows& x, int rows, float* y) {
    int first = 0;
    for (; first + MOST_ROWS <= rows; first += MOST_ROWS) multiply_rows<MOST_ROWS>(matrix, panel, x, first, y);
    multiply_rest(matrix, panel, x, first, rows - first, y, std::integral_constant<int, MOST_ROWS - 1>());
}

void multiply(const Matrix& matrix, const float* x, float* y, int rows, int activation, QuantisedRows& quantised) {
    if (matrix.quantised) quantised.read(x, rows, matrix.inputs, stored_zero(matrix));
    const auto one_panel = [&](int panel) {
        if (matrix.quantised)
            multiply_panel(matrix, panel, quantised, rows, y);
        else
            multiply_panel(matrix, panel, x, rows, y);
    };
    if (static_cast<double>(matrix.outputs) * matrix.inputs * std::min(rows, MOST_ROWS) >= WORTH_SHARING)
        Team::of_process().share(matrix.panels, one_panel);
    else
        for (int panel = 0; panel < matrix.panels; ++panel) one_panel(panel);
    for (int r = 0; r < rows; ++r) activate(y + static_cast<size_t>(r) * matrix.outputs, matrix.outputs, activation);
}

}  // namespace transduce

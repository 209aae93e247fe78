// A weight matrix and its products with rows: y = x W' + b.
//
// Layout. The matrix W [outputs, inputs] is cut into panels of 64 outputs. A panel keeps, for each group of four inputs,
// the four weights of its first output, the four of its second, and so on:
//
//     integers[panel][input / 4][output % 64][input % 4]      8-bit integers, [panel][inputs / 4] blocks of 256 bytes
//     floats  [panel][input][output % 64]                     float32 matrices have no groups
//
// So one vector register of 64 bytes holds four weights of each of 16 outputs, which is what the instruction VPDPBUSD
// multiplies. Missing outputs and inputs are zeros.
//
// 8-bit products. Each output has a scale, and each row of x gets its own scale when it comes: its largest number
// becomes 127. So a row's result does not depend on the other rows. The sums are exact integers, so every processor
// finds the same ones.
//
// Narrow matrices. AVX2 multiplies unsigned by signed bytes and adds two neighbouring products in 16 bits. With activations
// of 0 to 255, no such sum is too large if the absolute values of two neighbouring weights, 2i and 2i + 1 of an output,
// sum to at most 128. Our exports quantise weights so. Other matrices take 1.5 times as long with AVX2, with the same sums.
#ifndef TRANSDUCE_MATRIX_H
#define TRANSDUCE_MATRIX_H

#include <cstdint>
#include <vector>

#include "numbers.h"

namespace transduce {

const int PANEL = 64;  // outputs
const int GROUP = 4;   // inputs

// Memory that starts at a cache line, so that no vector crosses one.
template <class T>
class Lines {
  public:
    Lines() = default;
    Lines(const Lines&) = delete;  // a copy would point into the memory of the first
    Lines& operator=(const Lines&) = delete;
    void resize(size_t count) {
        if (count + 64 / sizeof(T) <= held_.size()) return;
        held_.resize(count + 64 / sizeof(T));
        const uintptr_t start = reinterpret_cast<uintptr_t>(held_.data());
        first_ = held_.data() + ((64 - start % 64) % 64) / sizeof(T);
    }
    T* data() { return first_; }
    const T* data() const { return first_; }

  private:
    std::vector<T> held_;
    T* first_ = nullptr;
};

struct Matrix {
    int outputs, inputs, panels, groups;
    bool quantised, narrow;
    Lines<int8_t> integers;
    Lines<float> floats;
    Lines<float> scale, bias;  // of each output
    Lines<int32_t> shift;      // of each output: what a sum is too large by, where activations are stored unsigned

    Matrix(int outputs, int inputs, const float* bias_O);
    void pack(const int8_t* weight_OI, const float* scale_O);
    void pack(const float* weight_OI);

    // A packed matrix of these outputs alone, whose products have the same numbers.
    Matrix(const Matrix& whole, const std::vector<int64_t>& some);
};

// Rows of activations as 8-bit integers [rows, groups * GROUP], and the scale of each row.
class QuantisedRows {
  public:
    void read(const float* x, int rows, int inputs, int zero);
    const uint8_t* row(int index) const { return values_.data() + static_cast<size_t>(index) * stride_; }
    float scale(int index) const { return scale_[index]; }
    int stride() const { return stride_; }

  private:
    Lines<uint8_t> values_;
    std::vector<float> scale_;
    int stride_ = 0;
};

// y [rows, outputs] = activation(x [rows, inputs] W' + b). `quantised` is memory for the call.
void multiply(const Matrix& matrix, const float* x, float* y, int rows, int activation, QuantisedRows& quantised);

// What is stored for an activation of 0. Instructions that multiply unsigned by signed bytes need 128.
static inline int stored_zero(const Matrix& matrix) {
#if defined(__AVX512VNNI__)
    (void)matrix;
    return 128;
#elif defined(__AVX2__)
    return matrix.narrow ? 128 : 0;
#else
    (void)matrix;
    return 0;
#endif
}

}  // namespace transduce

#endif

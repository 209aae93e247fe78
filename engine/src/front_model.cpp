// What an encoder reads in place of the vectors of tokens: a signal's own vectors (wings/signals/modules).

#include "front.h"

#include "grid.h"
#include "refusal.h"

namespace transduce {

// A linear map of each `stack` neighbouring steps.
class FeatureFront : public Front {
  public:
    FeatureFront(Parts& parts, const Json& notes)
        : stack_(notes.number_in("stack", 1, 1000)), inputs_(notes.number_in("inputs", 1, LARGEST_NUMBER)) {
        if (stack_ * inputs_ > LARGEST_NUMBER) throw Refusal("stack * inputs: smaller steps were expected");
        out_ = parts.matrix("front.out", ANY, stack_ * inputs_);
    }
    int64_t width() const override { return out_->outputs; }
    int64_t inputs() const override { return inputs_; }

  protected:
    std::vector<float> vectors(const Steps& steps) const override {
        std::vector<float> x = steps.numbers;
        const int64_t count = (steps.length() + stack_ - 1) / stack_;
        x.resize(static_cast<size_t>(count * stack_ * inputs_));
        return multiplied(*out_, x, count);
    }

  private:
    int64_t stack_, inputs_;
    const Matrix* out_;
};

// Convolutions over a picture [rows, columns, channels], and a linear map of each column that they leave.
class GridFront : public Front {
  public:
    explicit GridFront(const Json& notes)
        : rows_(notes.number_in("height", 1, LARGEST_NUMBER)), channels_(notes.number_in("channels", 1, 1000)) {
        if (rows_ * channels_ > LARGEST_NUMBER) throw Refusal("height * channels: a smaller picture was expected");
    }
    int64_t width() const override { return out_->outputs; }
    int64_t inputs() const override { return rows_ * channels_; }

  protected:
    int64_t rows_, channels_;
    const Matrix* out_ = nullptr;

    // A convolution of 3 by 3 cells.
    static const Matrix* convolution(Parts& parts, const std::string& name, int64_t inputs) {
        return parts.matrix(name, ANY, 9 * inputs);
    }

    virtual Grid layers(Grid x) const = 0;

    std::vector<float> vectors(const Steps& steps) const override {
        Grid x = {rows_, steps.length(), channels_, std::vector<float>(steps.numbers.size())};
        for (int64_t s = 0; s < x.columns; ++s)
            for (int64_t c = 0; c < channels_; ++c)
                for (int64_t r = 0; r < rows_; ++r)
                    x.cells[(r * x.columns + s) * channels_ + c] = steps.numbers[(s * channels_ + c) * rows_ + r];
        const Grid y = layers(std::move(x));
        return multiplied(*out_, columns_of(y), y.columns);
    }
};

// Two convolutions with stride 2, a rectifier after each.
class SubsamplingFront : public GridFront {
  public:
    SubsamplingFront(Parts& parts, const Json& notes) : GridFront(notes) {
        first_ = convolution(parts, "front.0", channels_);
        second_ = convolution(parts, "front.1", first_->outputs);
        out_ = parts.matrix("front.out", ANY, (rows_ + 3) / 4 * second_->outputs);
    }

  protected:
    Grid layers(Grid x) const override { return convolved(*second_, 3, 2, convolved(*first_, 3, 2, x, RELU), RELU); }

  private:
    const Matrix *first_, *second_;
};

// Stages of a convolution, the largest number of neighbours, a rectifier and a norm. The first ones halve the width too.
class ColumnFront : public GridFront {
  public:
    ColumnFront(Parts& parts, const Json& notes) : GridFront(notes) {
        epsilon_ = static_cast<float>(notes.real_in("epsilon", 1e-12, 1));
        const int64_t shrink = notes.number_in("shrink", 1, 4);
        int64_t features = channels_, rows = rows_;
        for (int64_t l = 0, count = notes.number_in("layers", 1, 16); l < count; ++l) {
            const std::string name = "front." + std::to_string(l);
            const Matrix* matrix = convolution(parts, name, features);
            features = matrix->outputs;
            parts.tensor(name + ".scale_of_cells", {features});
            parts.tensor(name + ".shift_of_cells", {features});
            stages_.push_back({matrix, (int64_t(1) << l) < shrink ? 2 : 1, parts.floats(name + ".scale_of_cells", {features}),
                parts.floats(name + ".shift_of_cells", {features})});
            rows = (rows + 1) / 2;
        }
        if (rows * features > LARGEST_NUMBER) throw Refusal("height: a smaller picture was expected");
        out_ = parts.matrix("front.out", ANY, rows * features);
    }

  protected:
    Grid layers(Grid x) const override {
        for (const Stage& stage : stages_) {
            x = pooled(convolved(*stage.matrix, 3, 1, x, NONE), stage.wide);
            normalise_cells(x, stage.scale, stage.shift, epsilon_);
        }
        return x;
    }

  private:
    struct Stage {
        const Matrix* matrix;
        int64_t wide;
        const float *scale, *shift;
    };
    std::vector<Stage> stages_;
    float epsilon_;
};

std::vector<float> Front::multiplied(const Matrix& matrix, const std::vector<float>& x, int64_t rows) {
    std::vector<float> y(static_cast<size_t>(rows * matrix.outputs));
    check(transduce_multiply(&matrix, x.data(), y.data(), rows, NONE));
    return y;
}

Vectors Front::operator()(const Batch& batch) const {
    std::vector<std::vector<float>> every;
    Vectors found = {{}, 0, {}};
    for (const Steps* steps : batch.signals) {
        every.push_back(vectors(*steps));
        found.lengths.push_back(static_cast<int64_t>(every.back().size()) / width());
        found.longest = std::max(found.longest, found.lengths.back());
    }
    found.numbers.resize(static_cast<size_t>(batch.sources() * found.longest * width()));
    for (size_t b = 0; b < every.size(); ++b)
        std::copy(every[b].begin(), every[b].end(), found.numbers.begin() + static_cast<int64_t>(b) * found.longest * width());
    return found;
}

std::unique_ptr<Front> read_front(Parts& parts, const Json& notes) {
    if (notes.find("front") == nullptr) return nullptr;
    const Json& own = notes.table("front");
    switch (own.choice("type", {"columns", "features", "subsampling"})) {
        case 0:
            return std::make_unique<ColumnFront>(parts, own);
        case 1:
            return std::make_unique<FeatureFront>(parts, own);
        default:
            return std::make_unique<SubsamplingFront>(parts, own);
    }
}

}  // namespace transduce

// What an encoder reads in place of the vectors of tokens (wings/signals/modules, wings/labels/spelling.py).

#include "front.h"

#include <map>

#include "grid.h"
#include "refusal.h"

namespace transduce {

class SignalFront : public Front {
  public:
    Vectors operator()(const Batch& batch) const override {
        std::vector<std::vector<float>> every;
        Vectors found = {{}, 0, {}};
        for (const Steps* steps : batch.signals) {
            every.push_back(vectors(*steps));
            found.lengths.push_back(static_cast<int64_t>(every.back().size()) / width());
            found.longest = std::max(found.longest, found.lengths.back());
        }
        const int64_t size = found.longest * width();
        found.numbers.resize(static_cast<size_t>(batch.sources() * size));
        for (size_t b = 0; b < every.size(); ++b)
            std::copy(every[b].begin(), every[b].end(), found.numbers.begin() + static_cast<int64_t>(b) * size);
        return found;
    }

  protected:
    virtual std::vector<float> vectors(const Steps& steps) const = 0;  // of one source
};

// A linear map of each `stack` neighbouring steps.
class FeatureFront : public SignalFront {
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
class GridFront : public SignalFront {
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

// Words in pieces (wings/labels/spelling.py): an encoder reads each word, and a word that is known as a whole has a vector
// of its own before that of its pieces.
class SpelledFront : public Front {
  public:
    SpelledFront(Parts& parts, const Json& notes)
        : alphabet_(notes.number_in("alphabet", UNK + 1, LARGEST_NUMBER)), pooling_(read_pooling(notes)) {
        encoder_ = parts.within("front", [&] { return read_encoder(parts, notes); });
        const Encoded sizes = encoder_->sizes();
        if (encoder_->reads_signals() || sizes.vocabulary < alphabet_)
            throw Refusal("the encoder of words reads other pieces than those of the words");
        out_ = parts.matrix("front.out", ANY, pooled_width(pooling_, sizes));
        if (parts.has("front.known")) {
            const std::vector<int64_t>& shape = parts.tensor("front.known", {ANY, ANY}).shape;
            known_ = parts.floats("front.known", {ANY, ANY});
            words_ = shape[0] - 1;
            known_width_ = shape[1];
        }
    }
    int64_t width() const override { return known_width_ + out_->outputs; }
    int64_t inputs() const override { return alphabet_ + words_; }
    bool reads_signals() const override { return false; }

    Vectors operator()(const Batch& batch) const override {
        std::map<std::vector<int64_t>, size_t> places;  // of each different word
        std::vector<std::vector<std::pair<int64_t, size_t>>> rows(batch.lengths.size());
        Vectors found = {{}, 0, {}};
        for (size_t b = 0; b < rows.size(); ++b) {
            const int64_t *ids = batch.ids.data() + static_cast<int64_t>(b) * batch.longest, length = batch.lengths[b];
            for (int64_t first = 0, last; first < length; first = last) {
                if (!is_mark(ids[first]) && first + 1 < length) throw Refusal("the source does not say where its words begin");
                for (last = first + 1; last + 1 < length && !is_mark(ids[last]);) ++last;
                std::vector<int64_t> word(ids + first + 1, ids + std::min(last, length));
                word.push_back(EOS);
                rows[b].emplace_back(ids[first], places.emplace(std::move(word), places.size()).first->second);
            }
            found.lengths.push_back(static_cast<int64_t>(rows[b].size()));
            found.longest = std::max(found.longest, found.lengths.back());
        }
        const std::vector<float> vectors = of_words(places);
        const int64_t W = width(), own = out_->outputs;
        found.numbers.resize(static_cast<size_t>(batch.sources() * found.longest * W));
        for (size_t b = 0; b < rows.size(); ++b) {
            float* to = found.numbers.data() + static_cast<int64_t>(b) * found.longest * W;
            for (const auto& word : rows[b]) {
                const int64_t whole = std::max<int64_t>(0, word.first - alphabet_ + 1);
                if (known_ != nullptr) std::copy_n(known_ + whole * known_width_, known_width_, to);
                std::copy_n(vectors.data() + static_cast<int64_t>(word.second) * own, own, to + known_width_);
                to += W;
            }
        }
        return found;
    }

  private:
    int64_t alphabet_, words_ = 0, known_width_ = 0;
    Pooling pooling_;
    std::unique_ptr<Encoder> encoder_;
    const Matrix* out_;
    const float* known_ = nullptr;

    bool is_mark(int64_t id) const { return id == BOS || id >= alphabet_; }

    // The vectors of the words, each at its place.
    std::vector<float> of_words(const std::map<std::vector<int64_t>, size_t>& places) const {
        std::vector<const std::vector<int64_t>*> words(places.size());
        for (const auto& each : places) words[each.second] = &each.first;
        const Memory memory = (*encoder_)(Batch(words));
        return multiplied(*out_, pooled_by(pooling_, memory), memory.sources());
    }
};

std::vector<float> Front::multiplied(const Matrix& matrix, const std::vector<float>& x, int64_t rows) {
    std::vector<float> y(static_cast<size_t>(rows * matrix.outputs));
    check(transduce_multiply(&matrix, x.data(), y.data(), rows, NONE));
    return y;
}

std::unique_ptr<Front> read_front(Parts& parts, const Json& notes) {
    if (notes.find("front") == nullptr) return nullptr;
    const Json& own = notes.table("front");
    switch (own.choice("type", {"columns", "features", "spelled", "subsampling"})) {
        case 0:
            return std::make_unique<ColumnFront>(parts, own);
        case 1:
            return std::make_unique<FeatureFront>(parts, own);
        case 2:
            return std::make_unique<SpelledFront>(parts, own);
        default:
            return std::make_unique<SubsamplingFront>(parts, own);
    }
}

}  // namespace transduce

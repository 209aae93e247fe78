// A perceptron over a whole signal (wings/signals/perceptron.py): one state, which is also the summary.

#include "model.h"
#include "refusal.h"

namespace transduce {

class Perceptron : public Encoder {
  public:
    Perceptron(Parts& parts, const Json& notes)
        : steps_(notes.number_in("steps", 1, LARGEST_NUMBER)), step_width_(notes.number_in("step_width", 1, LARGEST_NUMBER)) {
        if (steps_ * step_width_ > LARGEST_NUMBER) throw Refusal("steps * step_width: a smaller signal was expected");
        width_ = steps_ * step_width_;
        for (int64_t l = 0, count = notes.number_in("layers", 1, 1000); l < count; ++l) {
            const std::string name = "encoder." + std::to_string(l);
            layers_.push_back({parts.matrix(name, ANY, width_), nullptr});
            width_ = layers_.back().matrix->outputs;
            if (parts.has(name + ".mix.weight")) layers_.back().mix = parts.matrix(name + ".mix", width_, width_);
        }
    }
    Encoded sizes() const override { return {width_, width_, step_width_}; }
    int64_t most_positions() const override { return steps_; }
    bool reads_signals() const override { return true; }

  protected:
    Memory encode(const Batch& batch) const override {
        const int64_t B = batch.sources();
        std::vector<float> x(static_cast<size_t>(B * steps_ * step_width_)), y;
        for (int64_t b = 0; b < B; ++b) {
            const std::vector<float>& own = batch.signals[b]->numbers;
            std::copy(own.begin(), own.end(), x.begin() + b * steps_ * step_width_);
        }
        for (const Layer& layer : layers_) {
            y.resize(static_cast<size_t>(B * layer.matrix->outputs));
            check(transduce_multiply(layer.matrix, x.data(), y.data(), B, RELU));
            x = y;
            if (layer.mix != nullptr) check(transduce_multiply(layer.mix, y.data(), x.data(), B, NONE));
        }
        return {std::vector<int64_t>(static_cast<size_t>(B), 1), 1, width_, x, {}, x, {}};
    }

  private:
    struct Layer {
        const Matrix *matrix, *mix;
    };
    int64_t steps_, step_width_, width_;
    std::vector<Layer> layers_;
};

}  // namespace transduce

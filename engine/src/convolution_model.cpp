// ConvS2S: reads its description for the kernels, and keeps the windows of a search. convolution.h explains the letters.

#include <cmath>
#include <memory>

#include "convolution.h"
#include "model.h"

namespace transduce {

static ConvolutionStack read_convolutions(Parts& parts, const std::string& side, const Json& notes, bool reads) {
    const Embedding embedding = parts.embedding(notes);
    const int64_t E = embedding.width, D = notes.number_in("width", 1, LARGEST_NUMBER),
                  kernel = notes.number_in("kernel", 1, 1000);
    std::vector<ConvolutionLayer> layers;
    for (int64_t l = 0, count = notes.number_in("layers", 1, 1000); l < count; ++l) {
        const std::string name = side + "." + std::to_string(l);
        layers.push_back({parts.matrix(name + ".convolution", 2 * D, kernel * D),
            reads ? parts.matrix(name + ".query", E, D) : nullptr, reads ? parts.matrix(name + ".out", D, E) : nullptr});
    }
    const int32_t count = static_cast<int32_t>(layers.size());
    return {static_cast<int32_t>(D), static_cast<int32_t>(kernel), count, embedding, parts.matrix(side + ".widen", D, E),
        parts.matrix(side + ".narrow", E, D), parts.array(std::move(layers))};
}

class ConvolutionEncoder : public Encoder {
  public:
    ConvolutionEncoder(Parts& parts, const Json& notes) : stack_(read_convolutions(parts, "encoder", notes, false)) {}
    Encoded sizes() const override { return {stack_.embedding.width, stack_.embedding.width, stack_.embedding.vocabulary}; }
    int64_t most_positions() const override { return stack_.embedding.most_positions; }

    Memory encode(const Batch& batch) const override {
        const int64_t B = batch.sources(), S = batch.longest, E = stack_.embedding.width;
        Memory memory = {
            batch.lengths, S, E, std::vector<float>(B * S * E), std::vector<float>(B * S * E), std::vector<float>(B * E), {}};
        check(transduce_convolution_encode(
            &stack_, batch.ids.data(), batch.lengths.data(), B, S, memory.states.data(), memory.values.data()));
        transduce_mean(memory.values.data(), memory.summary.data(), batch.lengths.data(), B, S, E);
        return memory;
    }

  private:
    ConvolutionStack stack_;
};

class ConvolutionState : public State {
  public:
    ConvolutionState(const ConvolutionStack& stack, const Memory& memory)
        : stack_(stack), lengths_(memory.lengths), longest_(memory.longest), keys_(memory.states),
          values_(memory.read(), memory.read() + memory.states.size()), place_(lengths_.size()),
          past_(lengths_.size() * size()) {
        const size_t width = static_cast<size_t>(longest_) * memory.width;
        for (size_t b = 0; b < lengths_.size(); ++b)
            for (size_t i = 0; i < width; ++i) values_[b * width + i] *= std::sqrt(static_cast<float>(lengths_[b]));
    }

    void step(const int64_t* tokens, float* features) override {
        const int64_t B = static_cast<int64_t>(lengths_.size());
        next_.resize(past_.size());
        const ConvolutionStep step = {B * rows_, B, longest_, tokens, place_.data(), lengths_.data(), keys_.data(),
            values_.data(), past_.data(), next_.data(), features};
        check(transduce_convolution_step(&stack_, &step));
        past_.swap(next_);
        for (int64_t& place : place_) ++place;
    }
    void spread(int64_t hypotheses) override {
        rows_ = hypotheses;
        follow(repeated(static_cast<int64_t>(lengths_.size()), hypotheses));
    }
    void follow(const std::vector<int64_t>& rows) override {
        gather(past_, size(), rows);
        gather(place_, 1, rows);
    }
    void keep(const std::vector<int64_t>& sources) override {
        follow(rows_of(sources, rows_));
        gather(keys_, longest_ * stack_.embedding.width, sources);
        gather(values_, longest_ * stack_.embedding.width, sources);
        gather(lengths_, 1, sources);
    }
    void join(State& state) override {
        auto& other = static_cast<ConvolutionState&>(state);
        const int64_t E = stack_.embedding.width, before = longest_;
        append(lengths_, 1, other.lengths_, 1, 1);
        longest_ = *std::max_element(lengths_.begin(), lengths_.end());
        append(keys_, before * E, other.keys_, other.longest_ * E, longest_ * E);
        append(values_, before * E, other.values_, other.longest_ * E, longest_ * E);
        append(past_, 1, other.past_, 1, 1);
        append(place_, 1, other.place_, 1, 1);
    }

  private:
    const ConvolutionStack& stack_;
    std::vector<int64_t> lengths_;
    int64_t longest_, rows_ = 1;
    std::vector<float> keys_, values_;
    std::vector<int64_t> place_;
    std::vector<float> past_, next_;

    int64_t size() const { return static_cast<int64_t>(stack_.count) * (stack_.kernel - 1) * stack_.width; }
};

class ConvolutionDecoder : public Decoder {
  public:
    ConvolutionDecoder(Parts& parts, const Json& notes, const Encoded& encoded)
        : stack_(read_convolutions(parts, "decoder", notes, encoded.width > 0)) {
        if (encoded.width && encoded.width != stack_.embedding.width)
            throw Refusal("the encoder's states have " + std::to_string(encoded.width) +
                          " numbers: " + std::to_string(stack_.embedding.width) + " were expected");
        readout_ = parts.matrix("readout", stack_.embedding.vocabulary, stack_.embedding.width);
    }
    int64_t vocabulary() const override { return stack_.embedding.vocabulary; }
    int64_t most_positions() const override { return stack_.embedding.most_positions; }
    std::unique_ptr<State> start(const Memory& memory, int64_t) const override {
        return std::make_unique<ConvolutionState>(stack_, memory);
    }

  private:
    ConvolutionStack stack_;
};

}  // namespace transduce

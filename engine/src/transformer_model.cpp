// Transformers: reads their description for the kernels, and keeps the keys and values of a search. transformer.h explains
// the letters and the memory.

#include <memory>

#include "model.h"
#include "refusal.h"
#include "transformer.h"

namespace transduce {

const int64_t FIRST_CAPACITY = 16;  // positions; then twice as many each time
static const std::vector<std::string> ACTIVATIONS = {"none", "relu", "gelu", "swish", "tanh"};  // as in numbers.h

static Relative read_relative(Parts& parts, const std::string& name, const Json& mixer, int64_t heads, int64_t features) {
    const auto reach = [&](const char* key) { return mixer.find(key) == nullptr ? 0 : mixer.number_in(key, 0, LARGEST_NUMBER); };
    const int64_t far = reach("far"), ahead = reach("ahead"), distances = far + 1 + ahead;
    if (parts.has(name + ".turns") && features % 2) throw Refusal(name + ".turns: heads of " + std::to_string(features) + " numbers have no two halves to turn");
    if (parts.has(name + ".keys") != parts.has(name + ".values")) throw Refusal(name + ".keys and " + name + ".values: both or neither were expected");
    return {static_cast<int32_t>(far), static_cast<int32_t>(ahead), parts.floats(name + ".turns", {ANY, features}),
            parts.floats(name + ".bias", {heads, distances}), parts.floats(name + ".keys", {distances, features}),
            parts.floats(name + ".values", {distances, features})};
}

static TransformerLayer read_layer(
    Parts& parts, const std::string& name, const Json& mixer, int64_t W, int64_t heads, int64_t gated, bool reads) {
    TransformerLayer layer = {};
    const int64_t kernel = mixer.find("kernel") == nullptr ? 0 : mixer.number_in("kernel", 1, LARGEST_NUMBER);
    const bool predicts = kernel > 0 && parts.has(name + ".predict.weight");
    if (kernel && !predicts) parts.tensor(name + ".weights", {heads, kernel});
    layer.mixer_norm = parts.norm(name + ".mixer_norm", W);
    layer.feedforward_norm = parts.norm(name + ".feedforward_norm", W);
    if (!kernel) layer.relative = read_relative(parts, name, mixer, heads, W / heads);
    layer.kernel = static_cast<int32_t>(kernel);
    if (kernel) layer.weights = parts.floats(name + ".weights", {heads, kernel});
    if (predicts) layer.predict = parts.matrix(name + ".predict", heads * kernel, W);
    layer.project = parts.matrix(name + ".project", (kernel ? 2 : 3) * W, W);
    layer.out = parts.matrix(name + ".out", W, W);
    layer.widen = parts.matrix(name + ".widen", ANY, W);
    if (gated && layer.widen->outputs % 2) throw Refusal(name + ".widen has " + std::to_string(layer.widen->outputs) + " outputs: two halves were expected");
    layer.narrow = parts.matrix(name + ".narrow", W, layer.widen->outputs / (1 + gated));
    if (!reads) return layer;
    layer.memory_norm = parts.norm(name + ".memory_norm", W);
    layer.query = parts.matrix(name + ".query", W, W);
    layer.read_out = parts.matrix(name + ".read_out", W, W);
    return layer;
}

// An encoder or a decoder, whose tensors begin with `side`. If it `reads`, its layers attend to a memory.
static TransformerStack read_stack(Parts& parts, const std::string& side, const Json& notes, bool reads) {
    TransformerStack stack = {};
    stack.embedding = parts.embedding(notes);
    const int64_t W = stack.embedding.width, count = notes.number_in("layers", 1, 1000), heads = notes.number_in("heads", 1, W);
    const int64_t gated = notes.find("gated") == nullptr ? 0 : notes.number_in("gated", 0, 1);
    if (W % heads) throw Refusal("heads = " + std::to_string(heads) + ": a divisor of the width " + std::to_string(W) + " was expected");
    static const Json attention;
    const Json* mixers = notes.find("mixers");
    if (mixers != nullptr && mixers->items.size() != static_cast<size_t>(count)) throw Refusal("mixers = " + mixers->shown() + ": one for each layer was expected");
    std::vector<TransformerLayer> layers;
    for (int64_t l = 0; l < count; ++l) {
        const std::string name = side + "." + std::to_string(l);
        layers.push_back(read_layer(parts, name, mixers == nullptr ? attention : mixers->items[l], W, heads, gated, reads));
        if (layers.back().relative.turns != nullptr) {
            const int64_t turns = parts.tensor(name + ".turns", {ANY, W / heads}).shape[0];
            stack.embedding.most_positions = static_cast<int32_t>(std::min<int64_t>(stack.embedding.most_positions, turns));
        }
    }
    stack.heads = static_cast<int32_t>(heads);
    stack.count = static_cast<int32_t>(count);
    stack.pre_norm = static_cast<int32_t>(notes.number_in("pre_norm", 0, 1));
    stack.gated = static_cast<int32_t>(gated);
    stack.activation = static_cast<int32_t>(notes.choice("activation", ACTIVATIONS));
    stack.eps = static_cast<float>(notes.real_in("eps", 0, 1e30));
    if (stack.pre_norm) stack.final_norm = parts.norm(side + ".norm", W);
    stack.layers = parts.array(std::move(layers));
    return stack;
}

class TransformerEncoder : public Encoder {
  public:
    TransformerEncoder(Parts& parts, const Json& notes) : stack_(read_stack(parts, "encoder", notes, false)) {}
    Encoded sizes() const override { return {stack_.embedding.width, stack_.embedding.width, stack_.embedding.vocabulary}; }
    int64_t most_positions() const override { return stack_.embedding.most_positions; }

    Memory encode(const Batch& batch) const override {
        const int64_t B = batch.sources(), S = batch.longest, W = stack_.embedding.width;
        Memory memory = {batch.lengths, S, W, std::vector<float>(B * S * W), {}, std::vector<float>(B * W), {}};
        check(transduce_transformer_encode(&stack_, batch.ids.data(), batch.lengths.data(), B, S, nullptr, memory.states.data()));
        transduce_mean(memory.states.data(), memory.summary.data(), batch.lengths.data(), B, S, W);
        return memory;
    }

  private:
    TransformerStack stack_;
};

class TransformerState : public State {
  public:
    // `memory` [B, S, L, 2, W] are the keys and values of the sources.
    TransformerState(const TransformerStack& stack, std::vector<int64_t> lengths, int64_t longest, std::vector<float> memory, int64_t places)
        : stack_(stack), lengths_(std::move(lengths)), longest_(longest), memory_(std::move(memory)), places_(places), rows_(1), place_(lengths_.size()) {
        grow_to(FIRST_CAPACITY);
    }

    void step(const int64_t* tokens, float* features) override {
        if (written_ == capacity_) grow_to(2 * capacity_);
        const int64_t B = static_cast<int64_t>(lengths_.size());
        const TransformerStep step = {
            B * rows_, places_, capacity_, tokens, place_.data(), {B, longest_, lengths_.data(), memory_.data()}, past_.data(), features, origin_.data()};
        check(transduce_transformer_step(&stack_, &step));
        for (int64_t& place : place_) ++place;
        ++written_;
    }

    void spread(int64_t hypotheses) override {
        rows_ = hypotheses;
        follow(repeated(static_cast<int64_t>(lengths_.size()), hypotheses));
    }

    void follow(const std::vector<int64_t>& rows) override {
        gather(origin_, capacity_, rows);
        gather(place_, 1, rows);
    }

    void keep(const std::vector<int64_t>& sources) override {
        follow(rows_of(sources, rows_));
        move(memory_, longest_ * size(), sources);
        move(past_, places_ * capacity_ * size(), sources);
        gather(lengths_, 1, sources);
    }

  private:
    const TransformerStack& stack_;
    std::vector<int64_t> lengths_;
    int64_t longest_;
    std::vector<float> memory_, past_;
    int64_t places_, rows_, written_ = 0, capacity_ = 0;  // rows of each source; all rows have written the same number
    std::vector<int64_t> place_;
    std::vector<int32_t> origin_;

    int64_t size() const { return static_cast<int64_t>(stack_.count) * 2 * stack_.embedding.width; }

    // Moves the blocks of the sources that stay to the front, in their own memory.
    static void move(std::vector<float>& x, int64_t block, const std::vector<int64_t>& sources) {
        for (size_t i = 0; i < sources.size(); ++i)
            if (sources[i] != static_cast<int64_t>(i)) std::copy(x.begin() + sources[i] * block, x.begin() + (sources[i] + 1) * block, x.begin() + i * block);
        x.resize(sources.size() * block);
    }

    void grow_to(int64_t capacity) {
        const int64_t blocks = static_cast<int64_t>(lengths_.size()) * places_, N = static_cast<int64_t>(place_.size());
        std::vector<float> past(blocks * capacity * size());
        for (int64_t i = 0; i < blocks; ++i)
            std::copy(past_.begin() + i * capacity_ * size(), past_.begin() + (i + 1) * capacity_ * size(), past.begin() + i * capacity * size());
        std::vector<int32_t> origin(N * capacity);
        for (int64_t n = 0; n < N; ++n) std::copy(origin_.begin() + n * capacity_, origin_.begin() + (n + 1) * capacity_, origin.begin() + n * capacity);
        past_.swap(past);
        origin_.swap(origin);
        capacity_ = capacity;
    }
};

// The keys and values [B, S, L * 2 * W] of all layers of a decoder.
static std::vector<float> keys_and_values(const Matrix& matrix, const Memory& memory, size_t W) {
    std::vector<float> read = of_real(matrix, memory.states.data(), memory.lengths, memory.longest);
    if (memory.values.empty()) return read;
    const std::vector<float> other = of_real(matrix, memory.values.data(), memory.lengths, memory.longest);  // an encoder whose values are not its keys
    for (size_t at = W; at < read.size(); at += 2 * W) std::copy(other.begin() + at, other.begin() + at + W, read.begin() + at);
    return read;
}

class TransformerDecoder : public Decoder {
  public:
    TransformerDecoder(Parts& parts, const Json& notes, const Encoded& encoded)
        : stack_(read_stack(parts, "decoder", notes, encoded.width > 0)) {
        if (encoded.width) read_ = parts.matrix("memory", static_cast<int64_t>(stack_.count) * 2 * stack_.embedding.width, encoded.width);
        readout_ = parts.matrix("readout", stack_.embedding.vocabulary, stack_.embedding.width);
    }
    int64_t vocabulary() const override { return stack_.embedding.vocabulary; }
    int64_t most_positions() const override { return stack_.embedding.most_positions; }

    std::unique_ptr<State> start(const Memory& memory, int64_t hypotheses) const override {
        std::vector<float> read = read_ == nullptr ? std::vector<float>() : keys_and_values(*read_, memory, stack_.embedding.width);
        return std::make_unique<TransformerState>(stack_, memory.lengths, memory.longest, std::move(read), hypotheses);
    }

  private:
    TransformerStack stack_;
    const Matrix* read_ = nullptr;  // null without a source
};

}  // namespace transduce

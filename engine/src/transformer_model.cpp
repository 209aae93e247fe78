// Transformers: reads their description for the kernels, and keeps the keys and values of a search. transformer.h explains
// the letters and the memory.

#include <memory>
#include <mutex>

#include "model.h"
#include "refusal.h"
#include "transformer.h"

namespace transduce {

const int64_t FIRST_CAPACITY = 16;  // positions; then twice as many each time
const size_t MOST_HELD = 1 << 22;   // numbers that wait for other sources: 16 MB
static const std::vector<std::string> ACTIVATIONS = {"none", "relu", "gelu", "swish", "tanh"};  // as in numbers.h

static Relative read_relative(Parts& parts, const std::string& name, const Json& mixer, int64_t heads, int64_t features) {
    const auto reach = [&](const char* key) {
        return mixer.find(key) == nullptr ? 0 : mixer.number_in(key, 0, LARGEST_NUMBER);
    };
    const int64_t far = reach("far"), ahead = reach("ahead"), distances = far + 1 + ahead;
    if (parts.has(name + ".turns") && features % 2)
        throw Refusal(name + ".turns: heads of " + std::to_string(features) + " numbers have no two halves to turn");
    if (parts.has(name + ".keys") != parts.has(name + ".values"))
        throw Refusal(name + ".keys and " + name + ".values: both or neither were expected");
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
    if (gated && layer.widen->outputs % 2)
        throw Refusal(name + ".widen has " + std::to_string(layer.widen->outputs) + " outputs: two halves were expected");
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
    if (W % heads)
        throw Refusal("heads = " + std::to_string(heads) + ": a divisor of the width " + std::to_string(W) + " was expected");
    static const Json attention;
    const Json* mixers = notes.find("mixers");
    if (mixers != nullptr && mixers->items.size() != static_cast<size_t>(count))
        throw Refusal("mixers = " + mixers->shown() + ": one for each layer was expected");
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
        check(
            transduce_transformer_encode(&stack_, batch.ids.data(), batch.lengths.data(), B, S, nullptr, memory.states.data()));
        transduce_mean(memory.states.data(), memory.summary.data(), batch.lengths.data(), B, S, W);
        return memory;
    }

  private:
    TransformerStack stack_;
};

// Memory without zeros for the pasts of sources. That of sources that have left is for others: fresh memory costs a twentieth of
// a search.
class Pasts {
  public:
    struct Back {
        Pasts* to;
        size_t size;
        void operator()(float* past) const { to->put(past, size); }
    };
    typedef std::unique_ptr<float[], Back> Past;

    Past take(size_t size) {
        std::lock_guard<std::mutex> lock(mutex_);
        for (auto each = free_.rbegin(); each != free_.rend(); ++each) {
            if (each->first != size) continue;
            Past found(each->second.release(), {this, size});
            held_ -= size;
            free_.erase(std::next(each).base());
            return found;
        }
        return Past(new float[size], {this, size});
    }

  private:
    std::mutex mutex_;
    std::vector<std::pair<size_t, std::unique_ptr<float[]>>> free_;
    size_t held_ = 0;  // numbers

    void put(float* past, size_t size) {
        std::unique_ptr<float[]> own(past);
        std::lock_guard<std::mutex> lock(mutex_);
        if (held_ + size > MOST_HELD) return;
        free_.emplace_back(size, std::move(own));
        held_ += size;
    }
};

class TransformerState : public State {
  public:
    // `memory` [S, L, 2, W] are the keys and values of each source.
    TransformerState(const TransformerStack& stack, Pasts& pasts, const std::vector<int64_t>& lengths,
        std::vector<std::vector<float>> memory, int64_t places)
        : stack_(stack), pasts_(pasts), places_(places) {
        for (size_t b = 0; b < lengths.size(); ++b) sources_.push_back({lengths[b], 0, 0, std::move(memory[b]), {}});
        make_room();
    }

    void step(const int64_t* tokens, float* features) override {
        make_room();
        std::vector<TransformerSource> sources;
        std::vector<int64_t> place;
        int64_t longest = 0;
        for (Source& each : sources_) {
            sources.push_back({each.length, each.states.data(), each.past.get(), each.capacity});
            place.insert(place.end(), rows_, each.written++);
            longest = std::max(longest, each.length);
        }
        const int64_t B = static_cast<int64_t>(sources.size());
        const TransformerStep step = {
            B * rows_, capacity_, tokens, place.data(), {B, longest, sources.data()}, features, origin_.data()};
        check(transduce_transformer_step(&stack_, &step));
    }

    void spread(int64_t hypotheses) override {
        rows_ = hypotheses;
        follow(repeated(static_cast<int64_t>(sources_.size()), hypotheses));
    }

    void follow(const std::vector<int64_t>& rows) override { gather(origin_, capacity_, rows); }

    void keep(const std::vector<int64_t>& sources) override {
        follow(rows_of(sources, rows_));
        std::vector<Source> found;
        for (int64_t b : sources) found.push_back(std::move(sources_[b]));
        sources_.swap(found);
    }

    void join(State& state) override {
        auto& other = static_cast<TransformerState&>(state);
        for (Source& each : other.sources_) sources_.push_back(std::move(each));
        const int64_t before = capacity_;
        capacity_ = most_room();
        append(origin_, before, other.origin_, other.capacity_, capacity_);
    }

  private:
    // What belongs to a source alone. All its rows have written the same number of positions.
    struct Source {
        int64_t length, written, capacity;
        std::vector<float> states;
        Pasts::Past past;
    };

    const TransformerStack& stack_;
    Pasts& pasts_;
    int64_t places_, rows_ = 1, capacity_ = 0;  // rows of each source; `capacity_` is the largest of all sources
    std::vector<Source> sources_;
    std::vector<int32_t> origin_;

    int64_t size() const { return static_cast<int64_t>(stack_.count) * 2 * stack_.embedding.width; }

    int64_t most_room() const {
        int64_t found = 0;
        for (const Source& each : sources_) found = std::max(found, each.capacity);
        return found;
    }

    // Gives each source the memory for one more position, without zeros: each position is written before it is read. An output
    // is often as long as its source.
    void make_room() {
        for (Source& each : sources_) {
            if (each.written < each.capacity) continue;
            const int64_t before = each.capacity * size();
            do each.capacity = std::max(FIRST_CAPACITY, 2 * each.capacity);
            while (before == 0 && each.capacity < each.length);
            const int64_t after = each.capacity * size();
            Pasts::Past past = pasts_.take(places_ * after);
            for (int64_t k = 0; k < places_ && before; ++k)
                std::copy_n(each.past.get() + k * before, before, past.get() + k * after);
            each.past = std::move(past);
        }
        const int64_t before = capacity_;
        capacity_ = std::max(capacity_, most_room());
        if (before == 0)
            origin_.resize(sources_.size() * rows_ * capacity_);
        else
            resize_rows(origin_, before, capacity_);
    }
};

// The keys and values [S, L, 2, W] of each source, for all layers of a decoder.
static std::vector<std::vector<float>> keys_and_values(const Matrix& matrix, const Memory& memory, size_t W) {
    std::vector<std::vector<float>> found;
    for (int64_t b = 0; b < memory.sources(); ++b) {
        const auto read = [&](const std::vector<float>& states) {
            std::vector<float> product(memory.lengths[b] * matrix.outputs);
            check(transduce_multiply(
                &matrix, states.data() + b * memory.longest * matrix.inputs, product.data(), memory.lengths[b], NONE));
            return product;
        };
        found.push_back(read(memory.states));
        if (memory.values.empty()) continue;
        const std::vector<float> other = read(memory.values);  // an encoder whose values are not its keys
        for (size_t at = W; at < other.size(); at += 2 * W)
            std::copy(other.begin() + at, other.begin() + at + W, found.back().begin() + at);
    }
    return found;
}

class TransformerDecoder : public Decoder {
  public:
    TransformerDecoder(Parts& parts, const Json& notes, const Encoded& encoded)
        : stack_(read_stack(parts, "decoder", notes, encoded.width > 0)) {
        if (encoded.width)
            read_ = parts.matrix("memory", static_cast<int64_t>(stack_.count) * 2 * stack_.embedding.width, encoded.width);
        readout_ = parts.matrix("readout", stack_.embedding.vocabulary, stack_.embedding.width);
    }
    int64_t vocabulary() const override { return stack_.embedding.vocabulary; }
    int64_t most_positions() const override { return stack_.embedding.most_positions; }

    std::unique_ptr<State> start(const Memory& memory, int64_t hypotheses) const override {
        std::vector<std::vector<float>> read(memory.lengths.size());
        if (read_ != nullptr) read = keys_and_values(*read_, memory, stack_.embedding.width);
        return std::make_unique<TransformerState>(stack_, pasts_, memory.lengths, std::move(read), hypotheses);
    }

  private:
    TransformerStack stack_;
    mutable Pasts pasts_;
    const Matrix* read_ = nullptr;  // null without a source
};

}  // namespace transduce

// Recurrent networks: reads their description for the kernels, and keeps the states of a search. recurrent.h explains the
// letters.

#include <memory>

#include "front.h"
#include "recurrent.h"
#include "refusal.h"

namespace transduce {

static const std::vector<std::string> CELLS = {"lstm", "gru", "elman-tanh", "elman-sigmoid", "ssru"};  // as in recurrent.h
static const std::vector<std::string> WIRINGS = {"plain", "bahdanau", "luong"}, BRIDGES = {"linear", "copy", "zero"};

static int64_t gates_of(size_t kind) { return kind == LSTM ? 4 : kind == GRU ? 3 : kind == SSRU ? 2 : 1; }

static RecurrentCell read_cell(Parts& parts, const std::string& name, size_t kind, int64_t width, int64_t inputs) {
    const int64_t gates = gates_of(kind) * width;
    return {static_cast<int32_t>(kind), static_cast<int32_t>(width), parts.matrix(name + ".input", gates, inputs),
        kind == SSRU ? nullptr : parts.matrix(name + ".recurrent", gates, width),
        kind == LSTM ? parts.floats(name + ".peepholes", {3, width}) : nullptr};
}

class RecurrentReader : public Encoder {
  public:
    RecurrentReader(Parts& parts, const Json& notes) : encoder_(), front_(read_front(parts, notes)) {
        const Embedding embedding = front_ == nullptr ? parts.embedding(notes) : embedding_of(*front_);
        const size_t kind = notes.choice("cell", CELLS);
        const int64_t width = notes.number_in("width", 1, LARGEST_NUMBER), count = notes.number_in("layers", 1, 1000);
        width_ = notes.number_in("ways", 1, 2) * width;
        std::vector<RecurrentCell> cells;
        for (int64_t l = 0; l < count; ++l) {
            int64_t there = 0;
            for (const char* way : {"forward", "backward"}) {
                const std::string name = "encoder." + std::to_string(l) + "." + way;
                const bool has = parts.has(name + ".input.weight");
                there += has;
                cells.push_back(has ? read_cell(parts, name, kind, width, l ? width_ : embedding.width) : RecurrentCell());
            }
            if (there * width != width_)
                throw Refusal("encoder." + std::to_string(l) + " has " + std::to_string(there) +
                              " cells, and 'ways' says another number");
        }
        summary_ = count * width_ * (kind == LSTM ? 2 : 1);
        encoder_ = {embedding, static_cast<int32_t>(count), static_cast<int32_t>(notes.number_in("residual", 0, 1)),
            parts.array(std::move(cells))};
    }
    Encoded sizes() const override { return {width_, summary_, encoder_.embedding.vocabulary}; }
    int64_t most_positions() const override { return encoder_.embedding.most_positions; }
    bool reads_signals() const override { return front_ != nullptr && front_->reads_signals(); }

  protected:
    Memory encode(const Batch& batch) const override {
        if (front_ != nullptr) return encode_vectors((*front_)(batch));
        const int64_t B = batch.sources(), S = batch.longest;
        Memory memory = {
            batch.lengths, S, width_, std::vector<float>(B * S * width_), {}, std::vector<float>(B * summary_), {}};
        check(transduce_recurrent_encode(
            &encoder_, batch.ids.data(), batch.lengths.data(), B, S, memory.states.data(), memory.summary.data()));
        return memory;
    }

  private:
    RecurrentEncoder encoder_;
    std::unique_ptr<Front> front_;
    int64_t width_, summary_;

    // The sizes of what a front makes, in place of a table.
    static Embedding embedding_of(const Front& front) {
        return {
            static_cast<int32_t>(front.width()), static_cast<int32_t>(front.inputs()), ANY_POSITION, 1.0f, nullptr, nullptr};
    }

    Memory encode_vectors(Vectors vectors) const {
        const int64_t B = static_cast<int64_t>(vectors.lengths.size()), S = vectors.longest;
        Memory memory = {std::move(vectors.lengths), S, width_, std::vector<float>(B * S * width_), {},
            std::vector<float>(B * summary_), {}};
        check(transduce_recurrent_encode_vectors(
            &encoder_, vectors.numbers.data(), memory.lengths.data(), B, S, memory.states.data(), memory.summary.data()));
        return memory;
    }
};

class RecurrentState : public State {
  public:
    RecurrentState(const RecurrentDecoder& decoder, std::vector<int64_t> lengths, int64_t longest, std::vector<float> keys,
        std::vector<float> values, std::vector<float> cells)
        : decoder_(decoder), lengths_(std::move(lengths)), longest_(longest), keys_(std::move(keys)),
          values_(std::move(values)), cells_(std::move(cells)) {
        width_ = lengths_.empty() ? 0 : static_cast<int64_t>(cells_.size() / lengths_.size());
    }

    void step(const int64_t* tokens, float* features) override {
        const int64_t B = static_cast<int64_t>(lengths_.size());
        next_.resize(cells_.size());
        const RecurrentStep step = {B * rows_, B, longest_, width_, tokens, lengths_.data(), keys_.data(), values_.data(),
            cells_.data(), next_.data(), features};
        check(transduce_recurrent_step(&decoder_, &step));
        cells_.swap(next_);
    }
    void spread(int64_t hypotheses) override {
        rows_ = hypotheses;
        follow(repeated(static_cast<int64_t>(lengths_.size()), hypotheses));
    }
    void follow(const std::vector<int64_t>& rows) override { gather(cells_, width_, rows); }
    void keep(const std::vector<int64_t>& sources) override {
        follow(rows_of(sources, rows_));
        gather(keys_, longest_ * decoder_.key_width, sources);
        gather(values_, longest_ * decoder_.value_width, sources);
        gather(lengths_, 1, sources);
    }
    void join(State& state) override {
        auto& other = static_cast<RecurrentState&>(state);
        const int64_t K = decoder_.key_width, M = decoder_.value_width, before = longest_;
        append(lengths_, 1, other.lengths_, 1, 1);
        longest_ = *std::max_element(lengths_.begin(), lengths_.end());
        append(keys_, before * K, other.keys_, other.longest_ * K, longest_ * K);
        append(values_, before * M, other.values_, other.longest_ * M, longest_ * M);
        append(cells_, 1, other.cells_, 1, 1);
    }

  private:
    const RecurrentDecoder& decoder_;
    std::vector<int64_t> lengths_;
    int64_t longest_, rows_ = 1, width_;
    std::vector<float> keys_, values_, cells_, next_;
};

class RecurrentWriter : public Decoder {
  public:
    RecurrentWriter(Parts& parts, const Json& notes, const Encoded& encoded) : RecurrentWriter(parts, notes, encoded, true) {}

    // Cells without a readout, if it does not `write`.
    RecurrentWriter(Parts& parts, const Json& notes, const Encoded& encoded, bool writes) : decoder_() {
        const size_t kind = notes.choice("cell", CELLS), wiring = notes.choice("wiring", WIRINGS);
        const int64_t W = notes.number_in("width", 1, LARGEST_NUMBER), count = notes.number_in("layers", 1, 1000),
                      fed = notes.number_in("fed", 0, 1);
        const Embedding embedding = parts.embedding(notes);
        bridge_ = notes.choice("bridge", BRIDGES);
        cells_ = count * W * (kind == LSTM ? 2 : 1);
        feed_ = fed ? W : 0;
        if (bridge_ == 0) project_ = parts.matrix("bridge", cells_, encoded.summary);
        if (bridge_ == 1 && encoded.summary != cells_)
            throw Refusal("the encoder's summary has " + std::to_string(encoded.summary) +
                          " numbers: " + std::to_string(cells_) + " were expected");
        if (wiring != PLAIN && !encoded.width) throw Refusal("wiring = '" + WIRINGS[wiring] + "': attention needs a source");
        if (fed && wiring != LUONG) throw Refusal("fed = 1: only luong feeds its features");
        const int64_t lowest = wiring == BAHDANAU ? encoded.width : feed_, gates = gates_of(kind) * W;
        const int64_t joined = wiring == PLAIN      ? 0
                               : wiring == BAHDANAU ? W + encoded.width + embedding.width
                                                    : encoded.width + W;
        std::vector<RecurrentCell> cells;
        for (int64_t l = 0; l < count; ++l)
            cells.push_back(read_cell(parts, "decoder." + std::to_string(l), kind, W, l ? W : embedding.width));
        decoder_.embedding = embedding;
        decoder_.count = static_cast<int32_t>(count);
        decoder_.residual = static_cast<int32_t>(notes.number_in("residual", 0, 1));
        decoder_.wiring = static_cast<int32_t>(wiring);
        if (wiring != PLAIN) read_attention(parts, notes, encoded, W);
        if (lowest) decoder_.second = parts.matrix("second", gates, lowest);
        if (joined) decoder_.mix = parts.matrix("mix", W, joined);
        decoder_.cells = parts.array(std::move(cells));
        if (writes) readout_ = parts.matrix("readout", embedding.vocabulary, W);
    }
    int64_t vocabulary() const override { return decoder_.embedding.vocabulary; }
    int64_t width() const override { return decoder_.cells[0].width; }

    std::unique_ptr<State> start(const Memory& memory, int64_t) const override {
        std::vector<float> keys, values;
        if (decoder_.wiring != PLAIN) {
            keys = keys_ == nullptr ? memory.states : of_real(*keys_, memory.states.data(), memory.lengths, memory.longest);
            values.assign(memory.read(), memory.read() + memory.states.size());
        }
        return std::make_unique<RecurrentState>(
            decoder_, memory.lengths, memory.longest, std::move(keys), std::move(values), first(memory));
    }

  private:
    RecurrentDecoder decoder_;
    size_t bridge_;
    int64_t cells_, feed_;
    const Matrix *project_ = nullptr, *keys_ = nullptr;

    void read_attention(Parts& parts, const Json& notes, const Encoded& encoded, int64_t W) {
        const int64_t K = notes.number_in("key_width", 1, LARGEST_NUMBER);
        const bool mapped = parts.has("keys.weight"), asks = parts.has("query.weight");
        if (!(asks || W == K) || !(mapped || encoded.width == K))
            throw Refusal("key_width = " + std::to_string(K) + ": queries and keys of other widths need matrices");
        if (mapped) keys_ = parts.matrix("keys", K, encoded.width);
        if (asks) decoder_.query = parts.matrix("query", K, W);
        decoder_.key_width = static_cast<int32_t>(K);
        decoder_.value_width = static_cast<int32_t>(notes.number_in("value_width", encoded.width, encoded.width));
        decoder_.scale = static_cast<float>(notes.real_in("scale", -1e30, 1e30));
        decoder_.score = parts.floats("score", {K});
    }

    // The first state of the cells [B, cells + feed].
    std::vector<float> first(const Memory& memory) const {
        const int64_t B = memory.sources(), width = cells_ + feed_;
        std::vector<float> found(B * width), projected(B * cells_);
        if (project_ != nullptr)
            check(transduce_multiply(project_, memory.summary.data(), projected.data(), B, TANH));
        else if (bridge_ == 1)
            projected = memory.summary;
        for (int64_t b = 0; b < B; ++b)
            std::copy(projected.begin() + b * cells_, projected.begin() + (b + 1) * cells_, found.begin() + b * width);
        return found;
    }
};

}  // namespace transduce

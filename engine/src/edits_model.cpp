// A decoder that writes by edits: its cells are those of a recurrent decoder without attention. edits.h explains the letters.

#include <memory>

#include "edits.h"
#include "model.h"
#include "refusal.h"

namespace transduce {

class EditState : public State {
  public:
    // `states` [B, S, H] and `copies` [B, S] are of the sources. The first token that is read is BOS.
    EditState(const Matrix& remember, const Matrix& actions, int64_t vocabulary, int64_t width, const Memory& memory,
        std::unique_ptr<State> cells, std::vector<float> states, std::vector<int64_t> copies)
        : remember_(remember), actions_(actions), vocabulary_(vocabulary), width_(width), longest_(memory.longest),
          lengths_(memory.lengths), cells_(std::move(cells)), states_(std::move(states)), copies_(std::move(copies)),
          copied_(lengths_.size() * longest_) {
        written_.resize(copied_.size() * vocabulary);
        for (size_t b = 0; b < lengths_.size(); ++b)
            std::fill_n(written_.begin() + b * longest_ * vocabulary, vocabulary, 1.0f);
    }

    // The features are the log-probabilities [N, V] of the next token.
    void step(const int64_t* tokens, float* features) override {
        const int64_t B = static_cast<int64_t>(lengths_.size()), N = B * rows_, H = remember_.outputs;
        std::vector<float> hidden(N * width_), remembered(N * H);
        cells_->step(tokens, hidden.data());
        check(transduce_multiply(&remember_, hidden.data(), remembered.data(), N, NONE));
        next_written_.resize(written_.size());
        next_copied_.resize(copied_.size());
        const EditsStep step = {N, B, longest_, H, vocabulary_, tokens, lengths_.data(), copies_.data(), EOS, states_.data(),
            remembered.data(), &actions_, written_.data(), copied_.data(), next_written_.data(), next_copied_.data(), features};
        check(transduce_edits_step(&step));
        written_.swap(next_written_);
        copied_.swap(next_copied_);
    }
    void spread(int64_t hypotheses) override {
        rows_ = hypotheses;
        cells_->spread(hypotheses);
        move(repeated(static_cast<int64_t>(lengths_.size()), hypotheses));
    }
    void follow(const std::vector<int64_t>& rows) override {
        cells_->follow(rows);
        move(rows);
    }
    void keep(const std::vector<int64_t>& sources) override {
        cells_->keep(sources);
        move(rows_of(sources, rows_));
        gather(states_, longest_ * remember_.outputs, sources);
        gather(copies_, longest_, sources);
        gather(lengths_, 1, sources);
    }
    void join(State& state) override {
        auto& other = static_cast<EditState&>(state);
        const int64_t before = longest_, after = other.longest_, H = remember_.outputs;
        cells_->join(*other.cells_);
        append(lengths_, 1, other.lengths_, 1, 1);
        longest_ = *std::max_element(lengths_.begin(), lengths_.end());
        append(states_, before * H, other.states_, after * H, longest_ * H);
        append(copies_, before, other.copies_, after, longest_);
        append(written_, before * vocabulary_, other.written_, after * vocabulary_, longest_ * vocabulary_);
        append(copied_, before, other.copied_, after, longest_);
    }

  private:
    const Matrix &remember_, &actions_;
    int64_t vocabulary_, width_, longest_, rows_ = 1;
    std::vector<int64_t> lengths_;
    std::unique_ptr<State> cells_;
    std::vector<float> states_;
    std::vector<int64_t> copies_;
    std::vector<float> copied_, written_, next_copied_, next_written_;

    void move(const std::vector<int64_t>& rows) {
        gather(written_, longest_ * vocabulary_, rows);
        gather(copied_, longest_, rows);
    }
};

class EditWriter : public Decoder {
  public:
    EditWriter(Parts& parts, const Json& notes, const Encoded& encoded)
        : cells_(parts, notes, encoded, false), copies_(parts.whole_numbers("copies")) {
        if (!encoded.width) throw Refusal("a decoder by edits needs a source");
        read_ = parts.matrix("read", ANY, encoded.width);
        remember_ = parts.matrix("remember", read_->outputs, cells_.width());
        actions_ = parts.matrix("readout", vocabulary() + 2, read_->outputs);
        if (!copies_.empty() && static_cast<int64_t>(copies_.size()) != encoded.vocabulary)
            throw Refusal("copies has " + std::to_string(copies_.size()) + " ids, and the source another number");
        for (int64_t id : copies_)
            if (id < 0 || id >= vocabulary())
                throw Refusal("copies has ids outside a target vocabulary of " + std::to_string(vocabulary()));
    }
    int64_t vocabulary() const override { return cells_.vocabulary(); }
    int64_t width() const override { return vocabulary(); }
    void read_out(const float* features, int64_t rows, float* logits) const override {
        std::copy(features, features + rows * vocabulary(), logits);
    }

    std::unique_ptr<State> start(const Memory& memory, int64_t hypotheses) const override {
        std::vector<int64_t> copies(memory.ids.size());
        for (size_t i = 0; i < copies.size() && !copies_.empty(); ++i) copies[i] = copies_[memory.ids[i]];
        std::vector<float> states = of_real(*read_, memory.states.data(), memory.lengths, memory.longest);
        return std::make_unique<EditState>(*remember_, *actions_, vocabulary(), cells_.width(), memory,
            cells_.start(memory, hypotheses), std::move(states), std::move(copies));
    }

  private:
    RecurrentWriter cells_;
    std::vector<int64_t> copies_;  // the target id that a copy of each source id writes; empty if there are no copies
    const Matrix *read_, *remember_, *actions_;
};

}  // namespace transduce

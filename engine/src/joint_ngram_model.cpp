// A joint n-gram model: reads its tables, and keeps the readings of a search. readings.h explains the letters.

#include <memory>

#include "models.h"
#include "readings.h"
#include "refusal.h"

namespace transduce {

const int64_t MOST_LEVELS = 1000;  // the order of n-grams
const double FAR = 1e30;           // in place of an infinite beam

// The n-grams of a file. `words` are the last words of all n-grams but the empty one, and `children` says how many n-grams
// go on from each, in the order of the n-grams: by their order, then by the n-gram before the last word, then by that word.
class NgramTables {
  public:
    NgramTables(const Parts& parts, int64_t words) : words_(words) {
        const int64_t count = parts.tensor("ngrams.words", {ANY}, "U16").shape[0] + 1;
        last_ = parts.small_numbers("ngrams.words", count - 1);
        children_ = parts.small_numbers("ngrams.children", count);
        log_prob = parts.likelihoods("ngrams.log_prob", count);
        back_off = parts.likelihoods("ngrams.back_off", count);
        for (float& each : back_off) each = std::max(each, -1e30f);
        keys.reserve(count - 1);
        for (auto* table : {&suffix, &after}) table->reserve(count);
        place_children(count);
        find_suffixes(count);
        for (auto* table : {&last_, &children_}) std::vector<uint16_t>().swap(*table);  // only these two functions read them
        std::vector<int32_t>().swap(first_);
    }

    std::vector<int64_t> keys, suffix, after;
    std::vector<float> log_prob, back_off;

  private:
    int64_t words_;
    std::vector<uint16_t> last_, children_;
    std::vector<int32_t> first_;  // the first n-gram that goes on from each

    void place_children(int64_t count) {
        int64_t next = 1, level = 1, levels = 0;  // `level` is the first n-gram of the next level
        for (int64_t parent = 0; parent < count; ++parent) {
            if (parent == level) {
                level = next;
                if (++levels > MOST_LEVELS)
                    throw Refusal("ngrams.children has more than " + std::to_string(MOST_LEVELS) + " levels");
            }
            first_.push_back(static_cast<int32_t>(next));
            if (parent >= next || children_[parent] > count - next)
                throw Refusal("ngrams.children does not fit the number of n-grams");
            for (const int64_t end = next + children_[parent]; next < end; ++next) {
                const int64_t word = last_[next - 1];
                if (word >= words_ || (next > first_[parent] && word <= last_[next - 2]))
                    throw Refusal("ngrams.words: ascending words of the vocabulary were expected");
                keys.push_back(parent * words_ + word);
            }
        }
        if (next != count || children_[0] != words_) throw Refusal("ngrams.children: all words and all n-grams were expected");
    }

    // The suffix of an n-gram is the longest n-gram that it ends with. It says more than its suffix if others go on from it
    // or if it has a weight.
    void find_suffixes(int64_t count) {
        suffix.assign(1, 0);
        after.assign(1, 0);
        for (int64_t ngram = 1; ngram < count; ++ngram) {
            const int64_t parent = keys[ngram - 1] / words_, word = last_[ngram - 1];
            int64_t found = 0;
            for (int64_t shorter = parent; shorter != 0 && found == 0;) {
                shorter = suffix[shorter];
                found = child(shorter, word);
            }
            suffix.push_back(found);
            after.push_back(children_[ngram] || back_off[ngram] != 0.0f ? ngram : after[found]);
        }
    }

    // The n-gram that goes on with a word, or 0.
    int64_t child(int64_t parent, int64_t word) const {
        const auto begin = last_.begin() + first_[parent] - 1, end = begin + children_[parent],
                   found = std::lower_bound(begin, end, word);
        return found == end || *found != word ? 0 : found - last_.begin() + 1;
    }
};

class ReadingState : public State {
  public:
    ReadingState(const JointNgrams& model, int64_t vocabulary, double escape, const Batch& batch)
        : vocabulary_(vocabulary), escape_(escape) {
        std::vector<int64_t> lengths = batch.lengths;
        for (int64_t& length : lengths) --length;  // without EOS
        Lattices* lattices =
            transduce_read_sources(&model, batch.ids.data(), lengths.data(), batch.sources(), batch.longest, &tables_);
        if (lattices == nullptr) throw std::bad_alloc();
        tables_.arcs = std::max<int64_t>(1, tables_.arcs);
        arcs_of_.assign(tables_.sources, tables_.arcs);
        nodes_of_.assign(tables_.sources, tables_.nodes);
        resize();
        transduce_take_lattices(lattices, &tables_);
        next_.resize(tables_.sources * tables_.arcs);
        ending_.resize(tables_.sources);
        check(transduce_begin_readings(&tables_, next_.data(), ending_.data()));
    }

    // The features are the log-probabilities [N, V] of the next token.
    void step(const int64_t* tokens, float* features) override {
        next_after_.resize(next_.size());
        ending_after_.resize(ending_.size());
        const ReadingStep step = {static_cast<int64_t>(ending_.size()), vocabulary_, BOS, EOS, escape_, tokens, next_.data(),
            ending_.data(), next_after_.data(), ending_after_.data(), features};
        check(transduce_reading_step(&tables_, &step));
        next_.swap(next_after_);
        ending_.swap(ending_after_);
    }
    void spread(int64_t hypotheses) override {
        each_ = hypotheses;
        follow(repeated(tables_.sources, hypotheses));
    }
    void follow(const std::vector<int64_t>& rows) override {
        gather(next_, tables_.arcs, rows);
        gather(ending_, 1, rows);
    }
    void keep(const std::vector<int64_t>& sources) override {
        follow(rows_of(sources, each_));
        for (auto* table : {&start_, &stop_, &token_}) gather(*table, tables_.arcs, sources);
        gather(chance_, tables_.arcs, sources);
        gather(silent_stop_, tables_.nodes, sources);
        for (auto* table : {&silent_, &stopping_}) gather(*table, tables_.nodes, sources);
        for (auto* sizes : {&arcs_of_, &nodes_of_}) gather(*sizes, 1, sources);
        tables_.sources = static_cast<int64_t>(sources.size());
        point();
    }
    void join(State& state) override {
        auto& other = static_cast<ReadingState&>(state);
        const ReadingTables own = tables_;
        for (auto table : {&ReadingState::arcs_of_, &ReadingState::nodes_of_}) append(this->*table, 1, other.*table, 1, 1);
        tables_.arcs = *std::max_element(arcs_of_.begin(), arcs_of_.end());
        tables_.nodes = *std::max_element(nodes_of_.begin(), nodes_of_.end());
        for (auto table : {&ReadingState::start_, &ReadingState::stop_, &ReadingState::token_})
            append(this->*table, own.arcs, other.*table, other.tables_.arcs, tables_.arcs);
        for (auto table : {&ReadingState::chance_, &ReadingState::next_})
            append(this->*table, own.arcs, other.*table, other.tables_.arcs, tables_.arcs);
        for (auto table : {&ReadingState::silent_, &ReadingState::stopping_})
            append(this->*table, own.nodes, other.*table, other.tables_.nodes, tables_.nodes);
        append(silent_stop_, own.nodes, other.silent_stop_, other.tables_.nodes, tables_.nodes);
        append(ending_, 1, other.ending_, 1, 1);
        tables_.sources += other.tables_.sources;
        tables_.depth = std::max(tables_.depth, other.tables_.depth);
        point();
    }

  private:
    int64_t vocabulary_, each_ = 1;
    double escape_;
    ReadingTables tables_ = {};
    std::vector<int64_t> arcs_of_, nodes_of_;  // room that each source needs: it has no more arcs and nodes
    std::vector<int64_t> start_, stop_, token_, silent_stop_;
    std::vector<double> chance_, silent_, stopping_, next_, ending_, next_after_, ending_after_;

    void resize() {
        const size_t arcs = tables_.sources * tables_.arcs, nodes = tables_.sources * tables_.nodes;
        for (auto* table : {&start_, &stop_, &token_}) table->resize(arcs);
        chance_.resize(arcs);
        silent_stop_.resize(nodes);
        for (auto* table : {&silent_, &stopping_}) table->resize(nodes);
        point();
    }
    void point() {
        tables_ = {tables_.sources, tables_.arcs, tables_.nodes, tables_.depth, start_.data(), stop_.data(), token_.data(),
            chance_.data(), silent_.data(), silent_stop_.data(), stopping_.data()};
    }
};

class JointNgram : public Autoregressive {
  public:
    JointNgram(Parts& parts, const Json& notes)
        : source_vocabulary_(notes.number_in("source_vocabulary", EOS + 2, LARGEST_NUMBER)),
          target_vocabulary_(notes.number_in("target_vocabulary", EOS + 2, LARGEST_NUMBER)),
          escape_(notes.real_in("escape", 1e-300, 1)), units_(parts.whole_numbers("units", {ANY, ANY})),
          unit_count_(parts.tensor("units", {ANY, ANY}, "I64").shape[0]), ngrams_(parts, unit_count_ + 2) {
        const int64_t S = notes.number_in("source_tokens", 1, 1000), T = notes.number_in("target_tokens", 1, 1000),
                      W = unit_count_ + 2;
        parts.tensor("units", {unit_count_, S + T}, "I64");
        check_units(S, T);
        const int64_t begun = ngrams_.after[W];  // the begin is the last of the words
        model_ = {units_.data(), ngrams_.keys.data(), ngrams_.suffix.data(), ngrams_.after.data(), ngrams_.log_prob.data(),
            ngrams_.back_off.data(), unit_count_, S, T, static_cast<int64_t>(ngrams_.after.size()), unit_count_, begun,
            notes.number_in("width", 1, LARGEST_NUMBER), std::min(notes.real_in("beam", 0, FAR), FAR)};
    }
    int64_t source_vocabulary() const override { return source_vocabulary_; }
    int64_t target_vocabulary() const override { return target_vocabulary_; }
    int64_t width() const override { return target_vocabulary_; }
    void read_out(const float* features, int64_t rows, float* logits) const override {
        std::copy(features, features + rows * target_vocabulary_, logits);
    }

    std::unique_ptr<State> start(const Batch& batch, int64_t) const override {
        return std::make_unique<ReadingState>(model_, target_vocabulary_, escape_, batch);
    }

  private:
    int64_t source_vocabulary_, target_vocabulary_;
    double escape_;
    std::vector<int64_t> units_;  // [U, S + T], ascending
    int64_t unit_count_;
    NgramTables ngrams_;
    JointNgrams model_;

    void check_units(int64_t S, int64_t T) const {
        for (size_t i = 0; i < units_.size(); ++i) {
            const bool source = static_cast<int64_t>(i) % (S + T) < S;
            if (units_[i] < 0 || units_[i] >= (source ? source_vocabulary_ : target_vocabulary_))
                throw Refusal("units has ids outside the vocabularies");
        }
        for (auto unit = units_.begin() + (S + T); unit < units_.end(); unit += S + T)
            if (!std::lexicographical_compare(unit - (S + T), unit, unit, unit + (S + T)))
                throw Refusal("units: ascending rows were expected");
    }
};

static std::unique_ptr<Autoregressive> read_joint_ngram(Parts& parts, const Json& notes) {
    return parts.within("counted",
        [&]() -> std::unique_ptr<Autoregressive> { return std::make_unique<JointNgram>(parts, notes.table("counted")); });
}

}  // namespace transduce

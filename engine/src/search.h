// The search of a model that writes token by token: greedy search, beam search or sampling. Sources enter it and leave it
// between its steps. A source's hypotheses do not depend on the other sources, because no number of a row depends on another
// row. So small groups of sources go through the model one after the other: what more rows read and write does not fit the
// caches, and 16 sources together with a beam of 5 took 1.2 times as long as 8 and 8.
#ifndef TRANSDUCE_SEARCH_H
#define TRANSDUCE_SEARCH_H

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "models.h"

namespace transduce {

// A hypothesis that is not finished, and where it is in the phrases of its source, if there are any.
struct Active : Hypothesis {
    ActiveStates forbidden, required;
};

// What a search knows of a source. It has K hypotheses; the `score` of one that is not finished is its total, minus infinity
// at an empty place.
struct Searched {
    int64_t key, length, least, most;  // its own length, and those of its outputs
    Wanted wanted;
    std::shared_ptr<const Matrix> readout;  // of the words on its list; null if there is none, or if the model has no such
    uint64_t dice;                          // what its samples depend on
    int64_t written;                        // tokens of each hypothesis
    bool ended;
    std::vector<Active> active;
    std::vector<Hypothesis> finished;

    // The token that the prefix has next; -1 after its end.
    int64_t forced() const {
        return written < static_cast<int64_t>(wanted.prefix.size()) ? wanted.prefix[static_cast<size_t>(written)] : -1;
    }
    // A step chooses among columns of logits: the ids of its list, or all. Special tokens are on each list.
    int64_t columns(int64_t vocabulary) const {
        return wanted.listed.empty() ? vocabulary : static_cast<int64_t>(wanted.listed.size());
    }
    int64_t id(int64_t column) const { return wanted.listed.empty() ? column : wanted.listed[static_cast<size_t>(column)]; }
    int64_t column(int64_t id) const {
        if (wanted.listed.empty()) return id;
        return std::lower_bound(wanted.listed.begin(), wanted.listed.end(), id) - wanted.listed.begin();
    }

    bool must_end() const { return written + 1 >= most; }
    bool may_end() const { return written + 1 >= least; }

    // One of its hypotheses writes a token.
    void write(Active& own, int64_t token, double log_prob) const;
};

// The continuations of the hypotheses of a source that a step chooses among: `live` are the places of the K that go on.
struct Continuations {
    std::vector<double> totals;
    std::vector<int64_t> origin, column, live;
    std::vector<uint8_t> ended;
};

// Sources whose rows go through the model together.
struct SearchGroup {
    std::vector<Searched> sources;
    std::unique_ptr<State> state;
    int64_t each = 1;           // rows of each source: 1 before its first step, then K
    std::vector<int64_t> last;  // the token that each row has written

    // Only these sources stay.
    void keep(const std::vector<int64_t>& staying);

    // The sources of another group follow, which is lost.
    void join(SearchGroup& other);
};

class Search {
  public:
    Search(const Autoregressive& model, const Options& options) : model_(model), options_(options) {}

    // Adds sources, each with a key of its own, and does their first step.
    void enter(const Batch& batch, const std::vector<int64_t>& keys);

    // Each source reads a token and writes the next. Those that have ended leave.
    void step();

    // The sources with these keys leave without outputs.
    void drop(const std::vector<int64_t>& keys);

    bool searching() const { return !groups_.empty(); }

    // The number of sources that have ended since the last call of the next function.
    int64_t ended() const { return static_cast<int64_t>(ended_.size()); }

    // The keys and the outputs, best first, of the sources that have ended since the last call.
    std::vector<std::pair<int64_t, std::vector<Hypothesis>>> take_ended() { return std::exchange(ended_, {}); }

  private:
    const Autoregressive& model_;
    Options options_;
    std::vector<SearchGroup> groups_;  // none is empty
    std::vector<std::pair<int64_t, std::vector<Hypothesis>>> ended_;

    // Memory of a group's step.
    std::vector<float> features_;
    std::vector<float> logits_, some_;  // [N, V], of which a row has its source's columns first; those of one source alone
    std::vector<double> penalties_;     // of each row: that of an end which is forced although no token is allowed
    std::vector<uint8_t> barred_;       // tokens [V] that complete a forbidden phrase
    std::vector<int64_t> follows_;      // the row that each row goes on from

    int64_t most() const;
    SearchGroup begun(const Batch& batch, const int64_t* keys);
    void step(SearchGroup& group);
    void forget_empty();
    void read_out(const SearchGroup& group);
    bool bar(const Searched& source, const Active& own);
    void score_rows(const SearchGroup& group);
    void choose_best(SearchGroup& group);
    void choose_by_beam(SearchGroup& group);
    void draw(SearchGroup& group);
};

}  // namespace transduce

#endif

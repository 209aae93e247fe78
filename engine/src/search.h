// The search of a model that writes token by token: greedy search, beam search or sampling. Sources enter it and leave it
// between its steps. A source's hypotheses do not depend on the other sources, because no number of a row depends on another
// row.
#ifndef TRANSDUCE_SEARCH_H
#define TRANSDUCE_SEARCH_H

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
    uint64_t dice;    // what its samples depend on
    int64_t written;  // tokens of each hypothesis
    bool ended;
    std::vector<Active> active;
    std::vector<Hypothesis> finished;

    // The token that the prefix has next; -1 after its end.
    int64_t forced() const {
        return written < static_cast<int64_t>(wanted.prefix.size()) ? wanted.prefix[static_cast<size_t>(written)] : -1;
    }
    bool must_end() const { return written + 1 >= most; }
    bool may_end() const { return written + 1 >= least; }

    // One of its hypotheses writes a token.
    void write(Active& own, int64_t token, double log_prob) const;
};

// The continuations of the hypotheses of a source that a step chooses among: `live` are the places of the K that go on.
struct Continuations {
    std::vector<double> totals;
    std::vector<int64_t> origin, token, live;
    std::vector<uint8_t> ended;
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

    bool searching() const { return !sources_.empty(); }

    // The keys and the outputs, best first, of the sources that have ended since the last call.
    std::vector<std::pair<int64_t, std::vector<Hypothesis>>> take_ended() { return std::exchange(ended_, {}); }

  private:
    const Autoregressive& model_;
    Options options_;
    std::vector<Searched> sources_;
    std::unique_ptr<State> state_;         // null if there is no source
    int64_t each_ = 1;                     // rows of each source: 1 before its first step, then K
    std::vector<int64_t> last_, follows_;  // the token that each row has written, and the row that it goes on from
    std::vector<float> features_, logits_;
    std::vector<double> penalties_;  // of each row: that of an end which is forced although no token is allowed
    std::vector<uint8_t> barred_;    // tokens [V] that complete a forbidden phrase
    std::vector<std::pair<int64_t, std::vector<Hypothesis>>> ended_;

    void keep(const std::vector<int64_t>& staying);
    void keep_listed();
    bool bar(const Searched& source, const Active& own);
    void score_rows();
    void choose_best();
    void choose_by_beam();
    void draw();
};

}  // namespace transduce

#endif

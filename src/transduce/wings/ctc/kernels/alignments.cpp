// The searches and sums that alignments.h describes.

#include "alignments.h"

#include <limits>
#include <vector>

#include "prefix_sums.h"

namespace transduce {

// What callers read for ZERO.
static inline double to_public(double log_prob) {
    return log_prob < IMPOSSIBLE ? -std::numeric_limits<double>::infinity() : log_prob;
}

// ---------------------------------------------------------------- prefix beam search

// A prefix: a node of a tree. Each prefix is one node, also if it leaves the beam and comes back.
struct Prefix {
    int64_t parent, token, length;
    int64_t first_child, next_sibling;  // -1: none
    int64_t place;                      // in the beam, -1: it is not there
};

// A prefix of the beam, and the log-sums over its alignments: those that end with a blank, and those that end with its
// last token.
struct Entry {
    int64_t prefix;
    double blank, symbol;
    double total() const { return add_logs(blank, symbol); }
};

// A candidate for the next beam: entry `origin` itself (`token` is BLANK), or with one token more.
struct Candidate {
    double score, sum;  // `sum`: over the alignments of the longer prefix
    int64_t origin, token;
};

class PrefixBeam {
  public:
    PrefixBeam(int64_t symbols, int64_t first_token, int64_t size, double bonus)
        : V(symbols), first_token_(first_token), size_(size), bonus_(bonus), longer_(symbols) {}

    void start() {
        tree_.assign(1, {-1, BLANK, 0, -1, -1, 0});
        beam_.assign(1, {0, 0.0, ZERO});
    }

    void read(const double* log_probs) {
        best_.clear();
        stayed_.clear();
        for (const Entry& entry : beam_) stayed_.push_back(stay(entry, log_probs));
        const int64_t count = static_cast<int64_t>(beam_.size());
        for (int64_t k = 0; k < count; ++k) offer(stayed_[k].total() + reward(stayed_[k]), ZERO, k, BLANK);
        for (int64_t k = 0; k < count; ++k) extend(k, log_probs);
        choose();
    }

    // The best outputs, the best first, as `transduce_prefix_beam` returns them.
    void write(int64_t count, int64_t longest, int64_t* outputs, int64_t* lengths, double* scores) {
        best_.clear();
        for (size_t k = 0; k < beam_.size(); ++k) offer(beam_[k].total() + reward(beam_[k]), ZERO, k, BLANK);
        for (int64_t c = 0; c < count; ++c, outputs += longest) {
            lengths[c] = -1;
            if (c >= static_cast<int64_t>(best_.size())) continue;
            int64_t node = beam_[best_[c].origin].prefix;
            scores[c] = best_[c].score;
            lengths[c] = tree_[node].length;
            for (; tree_[node].parent >= 0; node = tree_[node].parent) outputs[tree_[node].length - 1] = tree_[node].token;
        }
    }

  private:
    const int64_t V, first_token_, size_;
    const double bonus_;
    std::vector<Prefix> tree_;
    std::vector<Entry> beam_, stayed_, next_;
    std::vector<Candidate> best_;  // the `size` best so far, the best first
    std::vector<double> longer_;   // [V]

    double reward(const Entry& entry) const { return bonus_ * static_cast<double>(tree_[entry.prefix].length); }

    // The same prefix after one more frame. The alignments of its parent that go on with its last token are among its own.
    Entry stay(const Entry& entry, const double* log_probs) const {
        const Prefix& prefix = tree_[entry.prefix];
        const double repeat = bounded(log_probs[prefix.token]);
        const int64_t place = prefix.parent < 0 ? -1 : tree_[prefix.parent].place;
        const double led = place < 0 ? ZERO : extension(beam_[place], prefix.token, repeat);
        return {entry.prefix, entry.total() + bounded(log_probs[BLANK]), add_logs(entry.symbol + repeat, led)};
    }

    // The last symbol can be repeated only after a blank.
    double extension(const Entry& entry, int64_t token, double log_prob) const {
        return (tree_[entry.prefix].token == token ? entry.blank : entry.total()) + log_prob;
    }

    // Offers all prefixes that are one token longer than entry k, except those that are in the beam already.
    void extend(int64_t k, const double* log_probs) {
        const Entry& entry = beam_[k];
        const Prefix& prefix = tree_[entry.prefix];
        const double total = entry.total(), more = reward(entry) + bonus_;
        for (int64_t v = first_token_; v < V; ++v) longer_[v] = total + bounded(log_probs[v]);
        if (prefix.token >= first_token_) longer_[prefix.token] = entry.blank + bounded(log_probs[prefix.token]);
        for (int64_t child = prefix.first_child; child >= 0; child = tree_[child].next_sibling)
            if (tree_[child].place >= 0) longer_[tree_[child].token] = ZERO;
        for (int64_t v = first_token_; v < V; ++v) offer(longer_[v] + more, longer_[v], k, v);
    }

    void offer(double score, double sum, int64_t origin, int64_t token) {
        const bool full = static_cast<int64_t>(best_.size()) == size_;
        if (score < IMPOSSIBLE || (full && score <= best_.back().score)) return;
        if (full) best_.pop_back();
        size_t at = best_.size();
        best_.push_back({score, sum, origin, token});
        for (; at > 0 && best_[at - 1].score < score; --at) std::swap(best_[at - 1], best_[at]);
    }

    void choose() {
        next_.clear();
        for (const Candidate& one : best_) {
            if (one.token == BLANK)
                next_.push_back(stayed_[one.origin]);
            else
                next_.push_back({child(beam_[one.origin].prefix, one.token), ZERO, one.sum});
        }
        for (const Entry& entry : beam_) tree_[entry.prefix].place = -1;
        for (size_t k = 0; k < next_.size(); ++k) tree_[next_[k].prefix].place = static_cast<int64_t>(k);
        beam_.swap(next_);
    }

    // The node of a prefix with one more token.
    int64_t child(int64_t node, int64_t token) {
        for (int64_t each = tree_[node].first_child; each >= 0; each = tree_[each].next_sibling)
            if (tree_[each].token == token) return each;
        const int64_t found = static_cast<int64_t>(tree_.size());
        tree_.push_back({node, token, tree_[node].length + 1, -1, tree_[node].first_child, -1});
        tree_[node].first_child = found;
        return found;
    }
};

// ---------------------------------------------------------------- given outputs

static int64_t align(const double* log_probs, const int64_t* frames, int64_t rows, int64_t longest, int64_t symbols,
    int64_t first_token, int64_t end, const int64_t* targets, const int64_t* lengths, int64_t most, double* own, double* best,
    int64_t* choice, double* total) {
    Following following(symbols, first_token, end);
    PrefixSums prefix, longer;
    std::vector<double> probabilities(longest * symbols);
    for (int64_t n = 0; n < rows;
        ++n, log_probs += longest * symbols, targets += most, own += most, best += most, choice += most) {
        const int64_t S = frames[n];
        for (int64_t i = 0; i < S * symbols; ++i) probabilities[i] = std::exp(log_probs[i]);
        prefix.start(log_probs, S, symbols);
        int64_t last = BLANK;
        for (int64_t u = 0; u < lengths[n]; ++u) {
            const int64_t token = targets[u];
            if (token < 0 || token >= symbols) return token;
            following.read(prefix, last, log_probs, probabilities.data(), S);
            choice[u] = following.choice();
            best[u] = following.log_prob(choice[u]);
            own[u] = following.log_prob(token);
            if (token == end) break;
            longer.extend(prefix, last, token, log_probs, S, symbols);
            std::swap(prefix, longer);
            last = token;
            if (!prefix.possible()) own[u] = to_public(ZERO);
        }
        total[n] = to_public(prefix.total[S]);
    }
    return DONE;
}

}  // namespace transduce

// ---------------------------------------------------------------- the interface

using namespace transduce;

int64_t transduce_prefix_beam(const double* log_probs, const int64_t* frames, int64_t rows, int64_t longest, int64_t symbols,
    int64_t first_token, int64_t size, int64_t count, double bonus, int64_t* outputs, int64_t* lengths, double* scores) {
    return guarded([=] {
        PrefixBeam beam(symbols, first_token, size, bonus);
        for (int64_t n = 0; n < rows; ++n) {
            beam.start();
            for (int64_t t = 0; t < frames[n]; ++t) beam.read(log_probs + (n * longest + t) * symbols);
            beam.write(count, longest, outputs + n * count * longest, lengths + n * count, scores + n * count);
        }
        return DONE;
    });
}

int64_t transduce_align(const double* log_probs, const int64_t* frames, int64_t rows, int64_t longest, int64_t symbols,
    int64_t first_token, int64_t end, const int64_t* targets, const int64_t* lengths, int64_t most, double* own, double* best,
    int64_t* choice, double* total) {
    return guarded([=] {
        return align(
            log_probs, frames, rows, longest, symbols, first_token, end, targets, lengths, most, own, best, choice, total);
    });
}

// The sums over the alignments of the outputs that begin with a prefix, which grows token by token (Graves 2008, section
// 7.5.2; Watanabe et al. 2017, algorithm 2): wings/ctc/prefixes.py in C++. alignments.h explains the letters.
#ifndef TRANSDUCE_PREFIX_SUMS_H
#define TRANSDUCE_PREFIX_SUMS_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace transduce {

// The logarithm of 0: finite, so that differences of it are numbers. Sums of it and of log-probabilities stay
// below IMPOSSIBLE.
const double ZERO = -1e300, IMPOSSIBLE = -1e299;
const int64_t BLANK = 0;

static inline double add_logs(double a, double b) {
    const double larger = a > b ? a : b, smaller = a > b ? b : a;
    return larger + std::log1p(std::exp(smaller - larger));
}

static inline double bounded(double log_prob) { return log_prob < ZERO ? ZERO : log_prob; }

// The log-sums over the alignments of the first t frames, t = 0 to S, that give exactly a prefix.
struct PrefixSums {
    std::vector<double> blank, symbol, total;

    // The empty prefix.
    void start(const double* log_probs, int64_t S, int64_t V) {
        blank.assign(S + 1, 0.0);
        symbol.assign(S + 1, ZERO);
        for (int64_t t = 0; t < S; ++t) blank[t + 1] = blank[t] + bounded(log_probs[t * V + BLANK]);
        total = blank;
    }

    // The prefix `before`, whose last token is `last`, with one more token.
    void extend(const PrefixSums& before, int64_t last, int64_t token, const double* log_probs, int64_t S, int64_t V) {
        blank.assign(S + 1, ZERO);
        symbol.assign(S + 1, ZERO);
        total.assign(S + 1, ZERO);
        const std::vector<double>& ready = token == last ? before.blank : before.total;
        for (int64_t t = 0; t < S; ++t) {
            symbol[t + 1] = add_logs(symbol[t], ready[t]) + bounded(log_probs[t * V + token]);
            blank[t + 1] = total[t] + bounded(log_probs[t * V + BLANK]);
            total[t + 1] = add_logs(symbol[t + 1], blank[t + 1]);
        }
    }

    bool possible() const { return *std::max_element(total.begin(), total.end()) > IMPOSSIBLE; }
};

// The choice of the token after a prefix.
class Following {
  public:
    Following(int64_t symbols, int64_t first_token, int64_t end)
        : V(symbols), first_token_(first_token), end_(end), sums_(symbols) {}

    // Reads the sums of a prefix whose last token is `last`. `probabilities` [S, V] are those of the frames.
    void read(const PrefixSums& prefix, int64_t last, const double* log_probs, const double* probabilities, int64_t S) {
        const double finished = prefix.total[S];
        const double most = *std::max_element(prefix.total.begin(), prefix.total.end());
        possible_ = prefix.possible();
        std::fill(sums_.begin(), sums_.end(), 0.0);
        for (int64_t t = 0; t < S && possible_; ++t) {
            const double weight = std::exp(prefix.total[t] - most);
            for (int64_t v = first_token_; v < V; ++v) sums_[v] += weight * probabilities[t * V + v];
        }
        if (last >= first_token_) {  // it can be repeated only after a blank
            sums_[last] = 0.0;
            for (int64_t t = 0; t < S && possible_; ++t)
                sums_[last] += std::exp(prefix.blank[t] - most + bounded(log_probs[t * V + last]));
        }
        sums_[end_] = std::exp(finished - most);
        mass_ = 0.0;
        for (int64_t v = 0; v < V; ++v) mass_ += sums_[v];
    }

    // The first of the most probable tokens without UNK, which no search writes; the end after an impossible prefix.
    int64_t choice() const {
        int64_t best = end_;
        for (int64_t v = first_token_ + 1; v < V && possible_; ++v)
            if (sums_[v] > sums_[best]) best = v;
        return best;
    }

    // False if no alignment goes on with this token. PAD and BOS, which are in no output, pass as long as the prefix is
    // possible: prefixes.py gives them the probability that `log_prob` gives them here.
    bool can_follow(int64_t token) const {
        return token == end_ ? !possible_ || sums_[end_] > 0 : possible_ && (token < first_token_ || sums_[token] > 0);
    }
    double log_prob(int64_t token) const {
        if (!possible_) return token == end_ ? 0.0 : ZERO;
        return std::log(std::max(sums_[token], std::numeric_limits<double>::min())) - std::log(mass_);
    }

  private:
    const int64_t V, first_token_, end_;
    std::vector<double> sums_;  // [V], relative to the largest
    double mass_ = 1.0;
    bool possible_ = false;
};

}  // namespace transduce

#endif

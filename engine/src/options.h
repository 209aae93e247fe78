// What a search is told: from the run's table `search`, and from the caller of an engine.
#ifndef TRANSDUCE_OPTIONS_H
#define TRANSDUCE_OPTIONS_H

#include <cstdint>
#include <utility>
#include <vector>

#include "json.h"

namespace transduce {

// How a beam compares finished hypotheses (search/ranking.py). Lengths count EOS.
struct Ranking {
    enum Kind { LOG_PROBABILITY, AVERAGE, WU, BREVITY, REWARD } kind = LOG_PROBABILITY;
    double alpha = 0, reward = 0, ratio = 1;

    double operator()(double log_prob, int64_t length, int64_t source_length) const;
};

// The least and the greatest length of outputs (search/filters/lengths.py).
struct LengthLimit {
    bool limited = false;  // whether there is a greatest one
    int64_t minimum = 0, maximum = 0;
    double minimum_ratio = 0, maximum_ratio = 0;

    int64_t most(int64_t source_length) const;
    int64_t least(int64_t source_length) const;
};

// How a distribution loses its improbable tail before a token is drawn (search/truncation.py).
struct Truncation {
    enum Kind { TOP_K, NUCLEUS, EPSILON } kind;
    double amount;
};

struct Options {
    enum Kind { GREEDY, BEAM, LABELS, VITERBI, POSTERIOR, BEST_PATH, PREFIX_BEAM, SAMPLING, LENGTH_BEAM } kind = GREEDY;
    int64_t size = 1, nbest = 1, max_length = 0;  // `max_length` is 0 if the search has no limit
    bool unknown = false;                         // whether outputs may have UNK
    double bonus = 0;                             // of a prefix beam, for each token
    Ranking ranking;
    LengthLimit limit;
    double temperature = 1;
    std::vector<Truncation> truncations;
    int64_t seed = 1;
    std::vector<std::pair<int64_t, double>> penalties;  // of Viterbi's search: labels, and what a sequence loses for each
    int64_t listed = 0;  // the target words of a source word in the file's shortlist; 0 without one

    // From a run's table `search`, which has all defaults. Throws Refusal for another search.
    static Options read(const Json& search);

    // Samples of a text that goes on. Throws Refusal for a number that is not allowed.
    static Options of_samples(int64_t samples, int64_t length, double temperature, int64_t top_k, double top_p, int64_t seed);

    // With another size or number of outputs; 0 keeps them. Throws Refusal for a beam that is too small or too large.
    Options resized(int64_t beam, int64_t outputs) const;

    // True for a search with a beam or several samples.
    bool sized() const { return kind == BEAM || kind == PREFIX_BEAM || kind == SAMPLING || kind == LENGTH_BEAM; }

    // The greatest number of tokens of an output for this source.
    int64_t longest(int64_t source_length) const;
};

}  // namespace transduce

#endif

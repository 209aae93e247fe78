// The whole search: from the ids of sources to hypotheses. search.cpp has greedy search and beam search, with the laws of
// src/transduce/search: the same hypotheses and scores, up to rounding.
#ifndef TRANSDUCE_SEARCH_H
#define TRANSDUCE_SEARCH_H

#include <cstdint>
#include <vector>

#include "json.h"
#include "model.h"

namespace transduce {

struct Hypothesis {
    std::vector<int64_t> tokens;  // with EOS
    std::vector<double> log_probs;
    double log_prob, score;
};

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

struct Options {
    bool greedy = true;
    int64_t size = 1, nbest = 1, max_length = 200;
    bool unknown = false;  // whether outputs may have UNK
    Ranking ranking;
    LengthLimit limit;

    // From a run's table `search`, which has all defaults. Throws Refusal for another search.
    static Options read(const Json& search);

    // The greatest number of tokens of an output for this source.
    int64_t longest(int64_t source_length) const;

    // Throws Refusal for a beam that is too small for its outputs, or too large.
    void check() const;
};

typedef std::vector<std::vector<Hypothesis>> Found;  // for each source, the best first

// Searches for all sources of a batch.
Found search(const Encoder& encoder, const Decoder& decoder, const Batch& batch, const Options& options);

}  // namespace transduce

#endif

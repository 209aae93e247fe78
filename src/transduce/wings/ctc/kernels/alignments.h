// Searches and sums over the alignments of outputs with frames (search/frames), in one call instead of some fifty small
// operators for each frame or token.
//
// Letters: N rows, S frames of the longest row, V symbols, K prefixes of a beam, T tokens. Symbol 0 is the blank; tokens
// begin at `first_token`, which is UNK. All numbers are float64.
#ifndef TRANSDUCE_ALIGNMENTS_H
#define TRANSDUCE_ALIGNMENTS_H

#include "interface.h"

// Prefix beam search (wings/ctc/search/prefix_beam.py) without a language model: the `count` best outputs of each row, the
// best first. Of equal prefixes, the one whose parent comes first, then the one with the first token, comes first.
//
//     log_probs [N, S, V], frames [N] (how many of them are real)
//     outputs [N, count, S], lengths [N, count] (-1: there are fewer outputs), scores [N, count]
TRANSDUCE_PUBLIC int64_t transduce_prefix_beam(const double* log_probs, const int64_t* frames, int64_t rows, int64_t longest,
    int64_t symbols, int64_t first_token, int64_t size, int64_t count, double bonus, int64_t* outputs, int64_t* lengths,
    double* scores);

// The probability of given outputs (wings/ctc/search/forcing.py). At each token, including the token `end` at the end of
// an output: its log-probability `own`, and the log-probability `best` and the id `choice` of the most probable token
// but UNK.
// Returns DONE, or an id that is no symbol.
//
//     log_probs [N, S, V], frames [N], targets [N, T] (with ends), lengths [N]
//     own [N, T], best [N, T], choice [N, T]; not written behind the end of an output
//     total [N]   over all alignments
TRANSDUCE_PUBLIC int64_t transduce_align(const double* log_probs, const int64_t* frames, int64_t rows, int64_t longest,
    int64_t symbols, int64_t first_token, int64_t end, const int64_t* targets, const int64_t* lengths, int64_t most,
    double* own, double* best, int64_t* choice, double* total);

#endif

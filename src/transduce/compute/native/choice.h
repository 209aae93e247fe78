// The steps of searches over tokens, each in one call instead of a dozen small operators.
#ifndef TRANSDUCE_CHOICE_H
#define TRANSDUCE_CHOICE_H

#include "interface.h"

// The most probable of the tokens from `first` on, the first of equal ones, in each of N rows of logits [N, V], and its
// log-probability among all tokens: token [N], log_prob [N] float64. If `forced` [N] is not null, and is at least `first`, it is the token.
TRANSDUCE_PUBLIC void transduce_highest(const float* logits, const int64_t* forced, int64_t rows, int64_t vocabulary,
    int64_t first, int64_t* token, double* log_prob);

// Log-probabilities in place of N rows of logits [N, V]; no numbers (NaN) in a row that has one. The tokens before
// `first` get minus infinity, and their probability is lost.
TRANSDUCE_PUBLIC void transduce_log_softmax(float* logits, int64_t rows, int64_t vocabulary, int64_t first);

// The continuations that a beam keeps (search/allocation/best.py). For each of B sources, the C = min(2 K, K min(K + 1, V)) best continuations of its K hypotheses, the best first. The
// total of token v after hypothesis k is total[b][k] + scores[b][k][v]. Of equal ones, the first hypothesis and the
// first token come first.
//
//     scores [B, K, V] float32, total [B, K] float64
//     totals [B, C] float64, origin [B, C] (the hypothesis k), token [B, C]
//     ended  [B, C]   1 for a finite continuation by the token `end` among the best K
//     live   [B, K]   the best K continuations that do not end; then those that end, if there are too few
TRANSDUCE_PUBLIC int64_t transduce_choose(const float* scores, const double* total, int64_t sources, int64_t hypotheses,
    int64_t vocabulary, int64_t end, double* totals, int64_t* origin, int64_t* token, uint8_t* ended, int64_t* live);

// What a beam makes of C candidates of each of B sources (search/beam.py). `most` is T, the length of the histories.
//
//     log_probs [B * K, V] float32, of the model; totals, origin, token, ended, live: as above, from any choice
//     tokens [B, K, T] and token_log_probs [B, K, T] float64, of the hypotheses so far
//     log_prob [B, C] float64, of each candidate's token
//     news [B, C + 1] float64: the best total of the next beam; then the total of each ended candidate, or minus infinity
//     next_total [B, K] float64, of the next beam, minus infinity for a candidate that ends
//     rows [B * K], the old rows that the new ones continue
//     next_tokens [B, K, T + 1] and next_log_probs [B, K, T + 1]
TRANSDUCE_PUBLIC void transduce_extend(const float* log_probs, const double* totals, const int64_t* origin,
    const int64_t* token, const uint8_t* ended, const int64_t* live, int64_t sources, int64_t hypotheses, int64_t candidates,
    int64_t vocabulary, int64_t end, int64_t most, const int64_t* tokens, const double* token_log_probs, double* log_prob,
    double* news, double* next_total, int64_t* rows, int64_t* next_tokens, double* next_log_probs);

#endif

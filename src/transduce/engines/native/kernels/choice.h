// The continuations that a beam keeps (search/allocation/best.py), in one call instead of a dozen small operators.
#ifndef TRANSDUCE_CHOICE_H
#define TRANSDUCE_CHOICE_H

#include "interface.h"

// For each of B sources, the C = min(2 K, K min(K + 1, V)) best continuations of its K hypotheses, the best first. The
// total of token v after hypothesis k is total[b][k] + scores[b][k][v]. Of equal ones, the first hypothesis and the
// first token come first.
//
//     scores [B, K, V] float32, total [B, K] float64
//     totals [B, C] float64, origin [B, C] (the hypothesis k), token [B, C]
//     ended  [B, C]   1 for a finite continuation by the token `end` among the best K
//     live   [B, K]   the best K continuations that do not end; then those that end, if there are too few
TRANSDUCE_PUBLIC void transduce_choose(
    const float* scores, const double* total, int64_t sources, int64_t hypotheses, int64_t vocabulary, int64_t end,
    double* totals, int64_t* origin, int64_t* token, uint8_t* ended, int64_t* live);

#endif

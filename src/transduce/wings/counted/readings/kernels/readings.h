// The readings of a joint n-gram model (statistical/readings): the ways to segment a source into units, as a pruned
// lattice, and the steps of hypotheses through it. One call takes the place of some hundred small operators for each
// source token.
//
// Letters: B sources of up to I tokens, U units of S source tokens and T target tokens, W words of the n-gram model, M
// n-grams, N rows (N / B adjacent rows for each source), E arcs and Q nodes of the largest lattice, V target vocabulary.
#ifndef TRANSDUCE_READINGS_H
#define TRANSDUCE_READINGS_H

#include "interface.h"

namespace transduce {
struct Lattices;
}

extern "C" {

// The model. `units` [U, S + T] ascend; the words of the n-gram model are the units, then `end`, then the beginning. The
// n-grams are those of wings/counted/back_off.py: `keys` [M - 1] ascend, the others have M entries.
struct JointNgrams {
    const int64_t *units, *keys, *suffix, *after;
    const float *log_prob, *back_off;
    int64_t unit_count, source_tokens, target_tokens, ngram_count, end, begun, width;
    double beam;
};

// The tables of `Readings`: `start`, `stop`, `token` and `chance` [B, E] of the arcs that write, `silent`, `silent_stop`
// and `ending` [B, Q] of the nodes. Whoever makes them sets all of them; a step only reads them.
struct ReadingTables {
    int64_t sources, arcs, nodes, depth;  // B, E, Q
    int64_t *start, *stop, *token;
    double* chance;
    double* silent;
    int64_t* silent_stop;
    double* ending;
};

// A step of N rows: each reads `tokens` [N]. `next` [N, E] and `ending` [N] are the state before it, `next_after` and
// `ending_after` the state after it. `log_probs` [N, V] are those of the token that follows; `escape` is the probability
// that no segmentation has it.
struct ReadingStep {
    int64_t rows, vocabulary, begin, end;  // `begin` and `end` are the ids of BOS and EOS
    double escape;
    const int64_t* tokens;
    const double *next, *ending;
    double *next_after, *ending_after;
    float* log_probs;
};
}

// Segments the first lengths[b] tokens of each row of `sources` [B, I], which are without EOS. Writes B, E, Q and the depth
// into `tables`. The caller then makes the memory of the tables, and calls `transduce_take_lattices` once. Returns null if
// there is no memory.
TRANSDUCE_PUBLIC transduce::Lattices* transduce_read_sources(const JointNgrams* model, const int64_t* sources,
    const int64_t* lengths, int64_t rows, int64_t longest, ReadingTables* tables);

// Writes the lattices into the tables, zeros past the end of each, and frees them.
TRANSDUCE_PUBLIC void transduce_take_lattices(transduce::Lattices* lattices, const ReadingTables* tables);

// The state before the first token, of one row for each source: `next` [B, E] and `ending` [B].
TRANSDUCE_PUBLIC int64_t transduce_begin_readings(const ReadingTables* tables, double* next, double* ending);

TRANSDUCE_PUBLIC int64_t transduce_reading_step(const ReadingTables* tables, const ReadingStep* step);

#endif

// The steps of a decoder that writes by edits (layers/decoders/edits.py): the probabilities of its actions at each source position,
// and the forward recursion of its pointer. wings/engines/native/edits.py declares the same structure.
//
// Letters: B sources, N rows of a step (N / B adjacent rows for each source), S positions of the longest source, H hidden
// features, V target vocabulary. The actions are: insert each of V tokens, delete, copy.
#ifndef TRANSDUCE_EDITS_H
#define TRANSDUCE_EDITS_H

#include "interface.h"

extern "C" {

// What a step reads and writes. The state before the step is `written` [N, S, V] and `copied` [N, S]: the probabilities
// that a row's pointer stands at a position and inserts each token there, or copies the one there. The state after it is
// `next_written` and `next_copied`.
struct EditsStep {
    int64_t rows, sources, longest, hidden, vocabulary;  // N, B, S, H, V
    const int64_t *tokens, *lengths, *copies;            // [N], [B], [B, S]: what a copy writes, 0 where it cannot
    int64_t end;                                         // the id of EOS
    const float* states;                                 // [B, S, H]: what the features have from the source
    const float* remembered;                             // [N, H]: what they have from the tokens so far
    const transduce::Matrix* actions;                    // [V + 2, H]
    const float *written, *copied;
    float *next_written, *next_copied;
    float* log_probs;  // [N, V]
};
}

// Reads one token in each row, and writes the log-probabilities of the token that follows.
TRANSDUCE_PUBLIC int64_t transduce_edits_step(const EditsStep* step);

#endif

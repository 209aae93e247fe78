// Edits with a pointer that only moves forward (Wu and Cotterell 2019). edits.h explains the letters.

#include "edits.h"

#include <algorithm>

#include "layers.h"

namespace transduce {

const float FLOOR = 1e-30f;  // below it a token counts as impossible, as in layers/decoders/edits.py

// Memory of a call for a block of rows. A block's positions are all real positions of its rows, one row after the other.
struct EditsScratch {
    std::vector<float> features, actions, at;
    QuantisedRows quantised;

    static EditsScratch& of(const EditsStep& step, int positions) {
        static thread_local EditsScratch scratch;
        grow(scratch.features, static_cast<size_t>(positions) * step.hidden);
        grow(scratch.actions, static_cast<size_t>(positions) * (step.vocabulary + 2));
        grow(scratch.at, step.longest);
        return scratch;
    }
};

static inline int64_t source_of(const EditsStep& step, int64_t n) { return n / (step.rows / step.sources); }

static void add_features(const EditsStep& step, int64_t n, float* features) {
    const size_t H = step.hidden;
    const int64_t b = source_of(step, n);
    const float *states = step.states + b * step.longest * H, *remembered = step.remembered + n * H;
    for (int64_t s = 0; s < step.lengths[b]; ++s)
        for (size_t i = 0; i < H; ++i) features[s * H + i] = tangent(states[s * H + i] + remembered[i]);
}

// Turns the logits of a position's actions into probabilities. Only the last position can write EOS, and it cannot be
// deleted. An action that is impossible gets 0.
static void choose_actions(const EditsStep& step, bool last, bool copies, float* actions) {
    const int64_t V = step.vocabulary, impossible[2] = {last ? V : step.end, V + 1};
    const int count = copies ? 1 : 2;
    float least = actions[0];
    for (int64_t a = 1; a < V + 2; ++a) least = std::min(least, actions[a]);
    for (int i = 0; i < count; ++i) actions[impossible[i]] = least - 200.0f;  // so softmax's largest is another action
    softmax(actions, static_cast<int>(V + 2));
    for (int i = 0; i < count; ++i) actions[impossible[i]] = 0.0f;
}

// Where the pointer stands when it writes the next token: [length], after the token that row n reads. Deletions move it on.
static void find_places(const EditsStep& step, int64_t n, const float* actions, float* at) {
    const int64_t b = source_of(step, n), length = step.lengths[b], S = step.longest, V = step.vocabulary;
    const int64_t token = step.tokens[n], *copies = step.copies + b * S;
    const float *written = step.written + n * S * V, *copied = step.copied + n * S;
    float total = 0.0f;
    for (int64_t s = 0; s < length; ++s) {
        at[s] = written[s * V + token];
        if (s > 0 && copies[s - 1] == token) at[s] += copied[s - 1];
        at[s] += FLOOR;  // even after tokens that are impossible
        total += at[s];
    }
    for (int64_t s = 0; s < length; ++s) {
        at[s] /= total;
        if (s > 0) at[s] += at[s - 1] * std::max(actions[(s - 1) * (V + 2) + V], FLOOR);
    }
}

static void write_token(const EditsStep& step, int64_t n, const float* actions, const float* at) {
    const int64_t b = source_of(step, n), length = step.lengths[b], S = step.longest, V = step.vocabulary;
    float *written = step.next_written + n * S * V, *copied = step.next_copied + n * S;
    float* total = step.log_probs + n * V;
    std::fill(total, total + V, 0.0f);
    std::fill(written + length * V, written + S * V, 0.0f);
    std::fill(copied + length, copied + S, 0.0f);
    for (int64_t s = 0; s < length; ++s, actions += V + 2, written += V) {
        for (int64_t v = 0; v < V; ++v) written[v] = at[s] * actions[v];
        add(total, written, static_cast<int>(V));
        copied[s] = at[s] * actions[V + 1];
    }
    for (int64_t s = 0; s < length; ++s) total[step.copies[b * S + s]] += copied[s];
    for (int64_t v = 0; v < V; ++v) total[v] = std::log(std::max(total[v], FLOOR));
}

// The rows first to last - 1, which have `positions` real positions in all.
static void step_block(const EditsStep& step, int64_t first, int64_t last, int positions, EditsScratch& scratch) {
    float* features = scratch.features.data();
    for (int64_t n = first; n < last; features += step.lengths[source_of(step, n++)] * step.hidden)
        add_features(step, n, features);
    float* actions = scratch.actions.data();
    multiply(*step.actions, scratch.features.data(), actions, positions, NONE, scratch.quantised);
    for (int64_t n = first; n < last; ++n) {
        const int64_t b = source_of(step, n), length = step.lengths[b];
        for (int64_t s = 0; s < length; ++s)
            choose_actions(step, s == length - 1, step.copies[b * step.longest + s] != 0, actions + s * (step.vocabulary + 2));
        find_places(step, n, actions, scratch.at.data());
        write_token(step, n, actions, scratch.at.data());
        actions += length * (step.vocabulary + 2);
    }
}

}  // namespace transduce

// ---------------------------------------------------------------- the interface

using namespace transduce;

int64_t transduce_edits_step(const EditsStep* step) {
    return guarded([=]() -> int64_t {
        EditsScratch& scratch = EditsScratch::of(*step, static_cast<int>(std::max<int64_t>(BLOCK, step->longest)));
        for (int64_t first = 0, last; first < step->rows; first = last) {
            int64_t positions = 0;
            for (last = first; last < step->rows; ++last) {
                const int64_t length = step->lengths[source_of(*step, last)];
                if (last > first && positions + length > BLOCK) break;
                positions += length;
            }
            step_block(*step, first, last, static_cast<int>(positions), scratch);
        }
        return DONE;
    });
}

// The steps of searches over tokens. choice.h explains them.

#include "choice.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "numbers.h"

namespace transduce {

const int64_t SCANNED = 64;  // scores that are compared with a bound together

struct Continuation {
    double total;
    int64_t origin, token;
};

// True if a number is missing (NaN). It reads the bits, because this becomes vector instructions.
static bool any_missing(const float* x, int64_t count) {
    uint32_t largest = 0;
    for (int64_t i = 0; i < count; ++i) {
        uint32_t bits;
        std::memcpy(&bits, x + i, sizeof bits);
        bits &= 0x7FFFFFFF;
        largest = bits > largest ? bits : largest;
    }
    return largest > 0x7F800000;
}

// The `count` largest of V scores and their tokens, the largest first.
static void find_largest(const float* scores, int64_t V, int64_t count, float* value, int64_t* token) {
    int64_t held = 0;
    const auto insert = [&](int64_t v) {
        int64_t at = held < count ? held++ : count - 1;
        for (; at > 0 && value[at - 1] < scores[v]; --at) {
            value[at] = value[at - 1];
            token[at] = token[at - 1];
        }
        value[at] = scores[v];
        token[at] = v;
    };
    int64_t v = 0;
    for (; v < count; ++v) insert(v);
    for (; v + SCANNED <= V; v += SCANNED) {
        const float bound = value[count - 1];
        int larger = 0;
        for (int64_t i = 0; i < SCANNED; ++i) larger |= scores[v + i] > bound;
        if (!larger) continue;
        for (int64_t i = v; i < v + SCANNED; ++i)
            if (scores[i] > value[count - 1]) insert(i);
    }
    for (; v < V; ++v)
        if (scores[v] > value[count - 1]) insert(v);
}

// The sum of e^(x - most), in 16 parts as in numbers.h.
static float sum_exponentials(const float* x, float most, int64_t count) {
    float parts[SIXTEEN] = {};
    int64_t i = 0;
    for (; i + SIXTEEN <= count; i += SIXTEEN)
        for (int j = 0; j < SIXTEEN; j += AT_A_TIME) {
            Register some, total;
            std::memcpy(&some, x + i + j, sizeof some);
            std::memcpy(&total, parts + j, sizeof total);
            total += exponential(some - most);
            std::memcpy(parts + j, &total, sizeof total);
        }
    Sixteen of_all;
    std::memcpy(&of_all, parts, sizeof of_all);
    float total = sum(of_all);
    for (; i < count; ++i) total += exponential(x[i] - most);
    return total;
}

static void choose(const float* scores, const double* total, int64_t sources, int64_t hypotheses, int64_t vocabulary,
    int64_t end, double* totals, int64_t* origin, int64_t* token, uint8_t* ended, int64_t* live) {
    const int64_t K = hypotheses, V = vocabulary, each = std::min(K + 1, V), C = std::min(2 * K, K * each);
    static thread_local std::vector<Continuation> found;
    static thread_local std::vector<float> value;
    static thread_local std::vector<int64_t> tokens;
    value.resize(each);
    tokens.resize(each);
    for (int64_t b = 0; b < sources; ++b) {
        found.clear();
        for (int64_t k = 0; k < K; ++k) {
            find_largest(scores + (b * K + k) * V, V, each, value.data(), tokens.data());
            for (int64_t i = 0; i < each; ++i)
                found.push_back({total[b * K + k] + static_cast<double>(value[i]), k, tokens[i]});
        }
        std::stable_sort(
            found.begin(), found.end(), [](const Continuation& one, const Continuation& two) { return one.total > two.total; });
        int64_t kept = 0;
        for (int64_t c = 0; c < C; ++c) {
            const Continuation& one = found[c];
            totals[b * C + c] = one.total;
            origin[b * C + c] = one.origin;
            token[b * C + c] = one.token;
            ended[b * C + c] = one.token == end && c < K && std::isfinite(one.total);
            if (one.token != end && kept < K) live[b * K + kept++] = c;
        }
        for (int64_t c = 0; c < C && kept < K; ++c)
            if (found[c].token == end) live[b * K + kept++] = c;
    }
}

}  // namespace transduce

using namespace transduce;

void transduce_highest(const float* logits, const int64_t* forced, int64_t rows, int64_t vocabulary, int64_t first,
    int64_t* token, double* log_prob) {
    for (int64_t n = 0; n < rows; ++n, logits += vocabulary) {
        const float highest = largest_of<false>(logits + first, vocabulary - first);
        const float most = std::max(highest, largest_of<false>(logits, first));
        const float* at = std::find(logits + first, logits + vocabulary, highest);
        token[n] = at == logits + vocabulary ? first : at - logits;  // NaN is nowhere
        if (forced != nullptr && forced[n] >= first) token[n] = forced[n];
        const double mass = sum_exponentials(logits, most, vocabulary);
        log_prob[n] = static_cast<double>(logits[token[n]] - most) - std::log(mass);
    }
}

void transduce_log_softmax(float* logits, int64_t rows, int64_t vocabulary, int64_t first) {
    for (int64_t n = 0; n < rows; ++n, logits += vocabulary) {
        const float most = largest_of<false>(logits, vocabulary);
        const float rest = static_cast<float>(std::log(static_cast<double>(sum_exponentials(logits, most, vocabulary))));
        if (any_missing(logits, vocabulary))
            std::fill(logits, logits + vocabulary, std::numeric_limits<float>::quiet_NaN());
        else
            for (int64_t v = 0; v < vocabulary; ++v) logits[v] = logits[v] - most - rest;
        std::fill(logits, logits + first, -std::numeric_limits<float>::infinity());
    }
}

int64_t transduce_choose(const float* scores, const double* total, int64_t sources, int64_t hypotheses, int64_t vocabulary,
    int64_t end, double* totals, int64_t* origin, int64_t* token, uint8_t* ended, int64_t* live) {
    return guarded([=] {
        choose(scores, total, sources, hypotheses, vocabulary, end, totals, origin, token, ended, live);
        return DONE;
    });
}

void transduce_extend(const float* log_probs, const double* totals, const int64_t* origin, const int64_t* token,
    const uint8_t* ended, const int64_t* live, int64_t sources, int64_t hypotheses, int64_t candidates, int64_t vocabulary,
    int64_t end, int64_t most, const int64_t* tokens, const double* token_log_probs, double* log_prob, double* news,
    double* next_total, int64_t* rows, int64_t* next_tokens, double* next_log_probs) {
    const int64_t K = hypotheses, C = candidates, T = most;
    const double never = -std::numeric_limits<double>::infinity();
    for (int64_t b = 0; b < sources; ++b) {
        for (int64_t c = 0; c < C; ++c) {
            const int64_t at = b * C + c;
            log_prob[at] = log_probs[(b * K + origin[at]) * vocabulary + token[at]];
            news[b * (C + 1) + 1 + c] = ended[at] ? totals[at] : never;
        }
        double best = never;
        for (int64_t k = 0; k < K; ++k) {
            const int64_t at = b * C + live[b * K + k], row = b * K + k, from = b * K + origin[at];
            next_total[row] = token[at] == end ? never : totals[at];
            best = next_total[row] > best ? next_total[row] : best;
            rows[row] = from;
            std::copy(tokens + from * T, tokens + (from + 1) * T, next_tokens + row * (T + 1));
            std::copy(token_log_probs + from * T, token_log_probs + (from + 1) * T, next_log_probs + row * (T + 1));
            next_tokens[row * (T + 1) + T] = token[at];
            next_log_probs[row * (T + 1) + T] = log_prob[at];
        }
        news[b * (C + 1)] = best;
    }
}

// Sampling of models that write token by token (search/sampling.py, search/random_numbers.py): the same seed gives the same
// samples as PyTorch. A sample depends on the seed and its own source alone.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "refusal.h"
#include "search.h"

namespace transduce {

const double COLDEST = 1e-30, HOTTEST = 1e30;  // beyond them, numbers come close to the limits of float32

namespace {

const uint64_t GOLDEN = 0x9E3779B97F4A7C15;  // the step of SplitMix64's counter

uint64_t mixed(uint64_t z) {
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
}

// A key with some ids.
uint64_t with_ids(uint64_t key, const int64_t* ids, int64_t count) {
    for (int64_t i = 0; i < count; ++i) key += mixed(static_cast<uint64_t>(ids[i]) + mixed(static_cast<uint64_t>(i) * GOLDEN));
    return mixed(key);
}

// The random number of a source's key at a place of a sample, from 0 to below 1.
double random_at(uint64_t dice, int64_t sample, int64_t place) {
    const uint64_t key = mixed(dice + static_cast<uint64_t>(sample + 1) * GOLDEN);
    return static_cast<double>(mixed(key + static_cast<uint64_t>(place) * GOLDEN) >> 11) * std::ldexp(1.0, -53);
}

// The least probability that a truncation keeps.
float least_of(const Truncation& cut, const std::vector<float>& q, std::vector<float>& sorted) {
    if (cut.kind == Truncation::EPSILON) return std::min(*std::max_element(q.begin(), q.end()), static_cast<float>(cut.amount));
    sorted = q;
    std::sort(sorted.begin(), sorted.end(), std::greater<float>());
    if (cut.kind == Truncation::TOP_K) return sorted[std::min(sorted.size(), static_cast<size_t>(cut.amount)) - 1];
    double sum = 0;
    for (const float each : sorted)
        if ((sum += each) >= cut.amount) return each;
    return sorted.back();
}

// The distribution to draw from, given the scores [V] of a row.
void distribute(const float* scores, const Options& options, std::vector<float>& q, std::vector<float>& sorted) {
    const float most = *std::max_element(scores, scores + q.size());
    const float temperature = static_cast<float>(std::min(std::max(options.temperature, COLDEST), HOTTEST));
    const auto share = [&] {
        const float sum = static_cast<float>(std::accumulate(q.begin(), q.end(), 0.0));
        for (float& each : q) each /= sum;
    };
    for (size_t v = 0; v < q.size(); ++v) q[v] = std::exp((scores[v] - most) / temperature);
    share();
    for (const Truncation& cut : options.truncations) {
        const float least = least_of(cut, q, sorted);
        for (float& each : q) each = each < least ? 0.0f : each;
        share();
    }
}

// The token at which the sum of the probabilities passes a share of the whole.
int64_t drawn(const std::vector<float>& q, double share) {
    double whole = 0, sum = 0;
    for (const float each : q) whole += each;
    int64_t last = EOS;
    for (size_t v = 0; v < q.size(); ++v) {
        if (q[v] > 0) last = static_cast<int64_t>(v);
        if ((sum += q[v]) > share * whole) return last;
    }
    return last;
}

}  // namespace

static uint64_t dice_of(int64_t seed, const int64_t* ids, int64_t count) {
    return with_ids(static_cast<uint64_t>(seed), ids, count);
}

void Search::draw(SearchGroup& group) {
    const int64_t K = options_.size, V = model_.target_vocabulary();
    std::vector<float> q, sorted;
    const float* scores = logits_.data();
    int64_t* last = group.last.data();
    for (Searched& source : group.sources) {
        q.resize(source.columns(V));
        source.ended = true;
        for (int64_t k = 0; k < K; ++k, ++last, scores += V) {
            Active& own = source.active[k];
            if (!own.tokens.empty() && own.tokens.back() == EOS) continue;  // `last` is EOS
            distribute(scores, options_, q, sorted);
            const int64_t column = drawn(q, random_at(source.dice, k, source.written));
            *last = source.id(column);
            source.write(own, *last, scores[column]);
            own.score += std::log(static_cast<double>(q[column]));
            source.ended = source.ended && *last == EOS;
        }
        ++source.written;
        if (!source.ended) continue;
        for (Active& each : source.active) {
            each.log_prob = total_of(each.log_probs);
            source.finished.push_back(std::move(each));
        }
        source.finished = best_of(source.finished, options_.nbest);
    }
}

// ---------------------------------------------------------------- texts that go on

std::vector<Hypothesis> Model::generate(const std::vector<int64_t>&, const Options&) const {
    throw Refusal("this model has sources: a language model was expected");
}

static std::vector<Hypothesis> go_on(const Autoregressive& model, const std::vector<int64_t>& prompt, const Options& options) {
    const std::vector<int64_t> nothing(1, EOS);
    const Batch batch(Targets(1, &nothing));
    const int64_t K = options.size, V = model.target_vocabulary();
    std::vector<int64_t> begun = {BOS}, last(K, EOS);
    begun.insert(begun.end(), prompt.begin(), prompt.end());
    const uint64_t dice =
        with_ids(dice_of(options.seed, batch.ids.data(), 1), begun.data(), static_cast<int64_t>(begun.size()));
    const std::unique_ptr<State> state = model.start(batch, K);
    std::vector<float> features(K * model.width()), scores(K * V), q(V), sorted;
    for (int64_t token : begun) state->step(&token, features.data());
    model.read_out(features.data(), 1, scores.data());
    gather(scores, V, repeated(1, K));
    state->spread(K);
    std::vector<Hypothesis> found(K);
    for (int64_t place = 0; place < options.max_length; ++place) {
        if (place) {
            state->step(last.data(), features.data());
            model.read_out(features.data(), K, scores.data());
        }
        transduce_log_softmax(scores.data(), K, V, EOS);
        for (int64_t n = 0; n < K; ++n) {
            Hypothesis& own = found[n];
            if (place && last[n] == EOS) continue;
            scores[n * V + UNK] = IMPOSSIBLE_LOGIT;
            distribute(scores.data() + n * V, options, q, sorted);
            last[n] = drawn(q, random_at(dice, n, place));
            own.tokens.push_back(last[n]);
            own.log_probs.push_back(scores[n * V + last[n]]);
        }
        if (std::all_of(last.begin(), last.end(), [](int64_t token) { return token == EOS; })) break;
    }
    for (Hypothesis& each : found) each.score = each.log_prob = total_of(each.log_probs);
    return found;
}

}  // namespace transduce

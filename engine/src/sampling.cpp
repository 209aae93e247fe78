// Sampling of models that write token by token (search/sampling.py, search/random_numbers.py): the same seed gives the same
// samples as PyTorch. A sample depends on the seed and its own source alone.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "models.h"
#include "refusal.h"

namespace transduce {

const double COLDEST = 1e-30, HOTTEST = 1e30;  // beyond them, numbers come close to the limits of float32

namespace {

const uint64_t GOLDEN = 0x9E3779B97F4A7C15;  // the step of SplitMix64's counter

uint64_t mixed(uint64_t z) {
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
}

// Random numbers that depend on a source and a seed.
class Dice {
  public:
    explicit Dice(int64_t seed) : key_(static_cast<uint64_t>(seed)) {}

    void read(const int64_t* ids, int64_t count) {
        uint64_t sum = key_;
        for (int64_t i = 0; i < count; ++i) sum += mixed(static_cast<uint64_t>(ids[i]) + mixed(static_cast<uint64_t>(i) * GOLDEN));
        key_ = mixed(sum);
    }

    // The number at a place of a sample, from 0 to below 1.
    double at(int64_t sample, int64_t place) const {
        const uint64_t key = mixed(key_ + static_cast<uint64_t>(sample + 1) * GOLDEN);
        return static_cast<double>(mixed(key + static_cast<uint64_t>(place) * GOLDEN) >> 11) * std::ldexp(1.0, -53);
    }

  private:
    uint64_t key_;
};

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

static Found sample(Rows& rows, const Batch& batch, const Options& options) {
    const int64_t K = options.size, V = rows.vocabulary(), all = static_cast<int64_t>(rows.sources.size());
    Found found(all, std::vector<Hypothesis>(K));
    std::vector<Dice> dice(all, Dice(options.seed));
    for (int64_t b = 0; b < all; ++b) dice[b].read(batch.ids.data() + b * batch.longest, batch.lengths[b]);
    std::vector<int64_t> last(all, BOS);
    std::vector<double> penalties;
    std::vector<float> q(V), sorted;
    for (bool first = true; rows.searching(); first = false) {
        std::vector<float>& scores = rows.read(last);
        score_rows(rows, options, first ? 1 : K, scores, penalties);
        const int64_t B = static_cast<int64_t>(rows.sources.size());
        if (first) {
            gather(scores, V, repeated(B, K));
            rows.state().spread(K);
            last.assign(B * K, BOS);
        }
        for (int64_t n = 0; n < B * K; ++n) {
            Source& source = rows.sources[n / K];
            Hypothesis& own = found[source.key][n % K];
            if (!own.tokens.empty() && own.tokens.back() == EOS) continue;  // `last` is EOS
            distribute(scores.data() + n * V, options, q, sorted);
            last[n] = drawn(q, dice[source.key].at(n % K, rows.written));
            own.tokens.push_back(last[n]);
            own.log_probs.push_back(scores[n * V + last[n]]);
            own.score = (own.log_probs.size() > 1 ? own.score : 0.0) + std::log(static_cast<double>(q[last[n]]));
        }
        for (int64_t b = 0; b < B; ++b) rows.sources[b].searching = std::any_of(last.begin() + b * K, last.begin() + (b + 1) * K, [](int64_t token) { return token != EOS; });
        ++rows.written;
        const std::vector<int64_t> staying = rows.remaining();
        if (staying.empty()) continue;
        gather(last, 1, rows_of(staying, K));
        rows.keep(staying);
    }
    for (auto& samples : found) {
        for (Hypothesis& each : samples) each.log_prob = total_of(each.log_probs);
        std::stable_sort(samples.begin(), samples.end(), [](const Hypothesis& one, const Hypothesis& two) { return one.score > two.score; });
        samples.resize(options.nbest);
    }
    return found;
}

// ---------------------------------------------------------------- texts that go on

std::vector<Hypothesis> Model::generate(const std::vector<int64_t>&, const Options&) const { throw Refusal("this model has sources: a language model was expected"); }

static std::vector<Hypothesis> go_on(const Autoregressive& model, const std::vector<int64_t>& prompt, const Options& options) {
    const std::vector<int64_t> nothing(1, EOS);
    const Batch batch(Targets(1, &nothing));
    const int64_t K = options.size, V = model.target_vocabulary();
    std::vector<int64_t> begun = {BOS}, last(K, EOS);
    begun.insert(begun.end(), prompt.begin(), prompt.end());
    Dice dice(options.seed);
    dice.read(batch.ids.data(), 1);
    dice.read(begun.data(), static_cast<int64_t>(begun.size()));
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
            last[n] = drawn(q, dice.at(n, place));
            own.tokens.push_back(last[n]);
            own.log_probs.push_back(scores[n * V + last[n]]);
        }
        if (std::all_of(last.begin(), last.end(), [](int64_t token) { return token == EOS; })) break;
    }
    for (Hypothesis& each : found) each.score = each.log_prob = total_of(each.log_probs);
    return found;
}

}  // namespace transduce

// Greedy search and beam search of models that write token by token, over a batch of sources. A source's hypotheses do not
// depend on the other sources, because no number of a row depends on another row. So a source may leave the batch when it
// has finished.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "models.h"
#include "refusal.h"

namespace transduce {

const double NEVER = -std::numeric_limits<double>::infinity();
const float IMPOSSIBLE_LOGIT = -std::numeric_limits<float>::infinity();
const double STUCK = 1e6;  // penalty of an end where no token is allowed (search/next_tokens.py)

// ---------------------------------------------------------------- the rows of a batch

namespace {

// What the searches know of a source.
struct Source {
    int64_t key, length, least, most;  // its place in the batch; its own length, and those of its outputs
    const std::vector<int64_t>* prefix = nullptr;  // that its outputs begin with
    bool searching = true;
    std::vector<Hypothesis> finished;

    // The token that the prefix has at this place; -1 after its end.
    int64_t forced(int64_t place) const {
        return prefix != nullptr && place < static_cast<int64_t>(prefix->size()) ? (*prefix)[static_cast<size_t>(place)] : -1;
    }
};

// The rows of the sources that are still in the batch, and what the model remembers of them.
class Rows {
  public:
    Rows(const Autoregressive& model, const Batch& batch, const Options& options)
        : model_(model), options_(options), state_(model.start(batch, options.size)) {
        for (int64_t b = 0; b < batch.sources(); ++b)
            sources.push_back({b, batch.lengths[b], options.limit.least(batch.lengths[b]), options.longest(batch.lengths[b]), batch.prefixes.empty() ? nullptr : batch.prefixes[b], true, {}});
    }

    std::vector<Source> sources;
    int64_t written = 0;  // tokens of each hypothesis

    int64_t vocabulary() const { return model_.target_vocabulary(); }
    State& state() { return *state_; }

    // The model reads a token in each row. The result are the logits [N, V] of the next one.
    std::vector<float>& read(const std::vector<int64_t>& tokens) {
        features_.resize(tokens.size() * model_.width());
        logits_.resize(tokens.size() * vocabulary());
        state_->step(tokens.data(), features_.data());
        model_.read_out(features_.data(), static_cast<int64_t>(tokens.size()), logits_.data());
        return logits_;
    }

    bool must_end(const Source& source) const { return written + 1 >= source.most; }
    bool may_end(const Source& source) const { return written + 1 >= source.least; }

    // The sources that stay if half of them have finished: moving the others costs half a step. Empty if all stay.
    std::vector<int64_t> remaining() const {
        std::vector<int64_t> found;
        for (size_t b = 0; b < sources.size(); ++b)
            if (sources[b].searching) found.push_back(static_cast<int64_t>(b));
        if (found.empty() || 2 * found.size() > sources.size()) found.clear();
        return found;
    }

    void keep(const std::vector<int64_t>& staying) {
        std::vector<Source> found;
        for (int64_t b : staying) found.push_back(std::move(sources[b]));
        sources.swap(found);
        state_->keep(staying);
    }

    bool searching() const {
        return std::any_of(sources.begin(), sources.end(), [](const Source& source) { return source.searching; });
    }

  private:
    const Autoregressive& model_;
    const Options& options_;
    std::unique_ptr<State> state_;
    std::vector<float> features_, logits_;
};

double total_of(const std::vector<double>& log_probs) { return std::accumulate(log_probs.begin(), log_probs.end(), 0.0); }

// ---------------------------------------------------------------- greedy search

// The most probable token of a row that may come next, and its log-probability among all tokens.
void choose_token(float* logits, int64_t V, bool must_end, bool may_end, bool unknown, int64_t& token, double& log_prob) {
    const int64_t end = EOS;
    transduce_highest(logits, must_end ? &end : nullptr, 1, V, EOS, &token, &log_prob);
    if (must_end || !((token == EOS && !may_end) || (token == UNK && !unknown))) return;
    const float ending = logits[EOS], unknown_logit = logits[UNK];
    if (!may_end) logits[EOS] = IMPOSSIBLE_LOGIT;
    if (!unknown) logits[UNK] = IMPOSSIBLE_LOGIT;
    const bool stuck = *std::max_element(logits + EOS, logits + V) == IMPOSSIBLE_LOGIT;
    transduce_highest(logits, stuck ? &end : nullptr, 1, V, EOS, &token, &log_prob);
    const int64_t chosen = token;
    logits[EOS] = ending;
    logits[UNK] = unknown_logit;
    transduce_highest(logits, &chosen, 1, V, EOS, &token, &log_prob);  // among all tokens, as for other rows
}

Found search_greedily(Rows& rows, const Options& options) {
    Found found(rows.sources.size());
    std::vector<Hypothesis> written(rows.sources.size());
    std::vector<int64_t> tokens(rows.sources.size(), BOS);
    while (rows.searching()) {
        float* logits = rows.read(tokens).data();
        for (size_t b = 0; b < rows.sources.size(); ++b, logits += rows.vocabulary()) {
            Source& source = rows.sources[b];
            double log_prob = 0;
            const int64_t forced = source.forced(rows.written);
            if (forced >= 0)
                transduce_highest(logits, &forced, 1, rows.vocabulary(), EOS, &tokens[b], &log_prob);
            else
                choose_token(logits, rows.vocabulary(), rows.must_end(source), rows.may_end(source), options.unknown, tokens[b], log_prob);
            if (!source.searching) continue;
            Hypothesis& own = written[source.key];
            own.tokens.push_back(tokens[b]);
            own.log_probs.push_back(log_prob);
            if (tokens[b] != EOS) continue;
            source.searching = false;
            own.log_prob = own.score = total_of(own.log_probs);
            found[source.key].push_back(std::move(own));
        }
        ++rows.written;
        const std::vector<int64_t> staying = rows.remaining();
        if (staying.empty()) continue;
        gather(tokens, 1, staying);
        rows.keep(staying);
    }
    return found;
}

// ---------------------------------------------------------------- beam search

// The hypotheses of all sources: row b * K + k. A total is minus infinity at an empty place.
struct Beam {
    std::vector<double> totals;
    std::vector<std::vector<int64_t>> tokens;
    std::vector<std::vector<double>> log_probs;
};

// True if the search drops the active hypotheses of a source, because none can still enter its n-best list. They have
// `written` tokens, and the best of them has the total `best`. Totals only fall. So the bound is the score with this total
// for an end now or as late as possible.
bool is_finished(const Source& source, const Options& options, int64_t written, double best) {
    if (best == NEVER || written == options.max_length) return true;
    if (static_cast<int64_t>(source.finished.size()) < options.nbest) return false;
    std::vector<double> scores;
    for (const Hypothesis& each : source.finished) scores.push_back(each.score);
    std::nth_element(scores.begin(), scores.begin() + options.nbest - 1, scores.end(), std::greater<double>());
    const double worst = scores[options.nbest - 1];
    if (static_cast<int64_t>(source.finished.size()) >= options.size) return options.ranking(best, written, source.length) <= worst;
    return std::max(options.ranking(best, written + 1, source.length), options.ranking(best, options.max_length, source.length)) <= worst;
}

// Log-probabilities [N, V] in place of logits, as scores: what may not come next has minus infinity. A prefix allows its
// token alone. `each` are the rows of a source. The penalty of an end that is forced although no token is allowed stands in `penalties` [N].
void score_rows(const Rows& rows, const Options& options, int64_t each, std::vector<float>& logits, std::vector<double>& penalties) {
    const int64_t V = rows.vocabulary(), N = static_cast<int64_t>(rows.sources.size()) * each;
    transduce_log_softmax(logits.data(), N, V, EOS);
    penalties.assign(N, 0.0);
    float* scores = logits.data();
    for (int64_t n = 0; n < N; ++n, scores += V) {
        const Source& source = rows.sources[n / each];
        const int64_t forced = source.forced(rows.written);
        if (forced < 0 && !options.unknown) scores[UNK] = IMPOSSIBLE_LOGIT;
        const float ending = scores[EOS];
        if (forced >= 0 || rows.must_end(source)) {
            const int64_t only = forced >= 0 ? forced : EOS;
            const float own = scores[only];
            std::fill(scores, scores + V, IMPOSSIBLE_LOGIT);
            scores[only] = own;
        } else if (!rows.may_end(source)) {
            scores[EOS] = IMPOSSIBLE_LOGIT;
            if (*std::max_element(scores, scores + V) == IMPOSSIBLE_LOGIT) {
                penalties[n] = STUCK;
                scores[EOS] = ending;
            }
        }
    }
}

Found search_by_beam(Rows& rows, const Options& options) {
    const int64_t K = options.size, V = rows.vocabulary(), C = std::min(2 * K, K * std::min(K + 1, V));
    const int64_t all = static_cast<int64_t>(rows.sources.size());
    Found found(all);
    Beam beam = {std::vector<double>(all * K, NEVER), std::vector<std::vector<int64_t>>(all * K), std::vector<std::vector<double>>(all * K)};
    std::vector<int64_t> last(all, BOS);
    std::vector<double> penalties;
    std::vector<double> totals(C);
    std::vector<int64_t> origin(C), token(C), live(K), follows;
    std::vector<uint8_t> ended(C);
    bool first = true;
    while (rows.searching()) {
        std::vector<float>& scores = rows.read(last);
        score_rows(rows, options, first ? 1 : K, scores, penalties);
        const int64_t B = static_cast<int64_t>(rows.sources.size());
        if (first) {  // one row becomes K equal ones, of which only the first counts
            gather(scores, V, repeated(B, K));
            gather(penalties, 1, repeated(B, K));
            rows.state().spread(K);
            for (int64_t b = 0; b < B; ++b) beam.totals[b * K] = 0;
            first = false;
        }
        Beam next = {std::vector<double>(B * K, NEVER), std::vector<std::vector<int64_t>>(B * K), std::vector<std::vector<double>>(B * K)};
        last.assign(B * K, EOS);
        follows.resize(B * K);
        ++rows.written;
        for (int64_t b = 0; b < B; ++b) {
            Source& source = rows.sources[b];
            const float* own = scores.data() + b * K * V;
            std::vector<double> before(K);
            for (int64_t k = 0; k < K; ++k) before[k] = beam.totals[b * K + k] - penalties[b * K + k];
            transduce::check(transduce_choose(own, before.data(), 1, K, V, EOS, totals.data(), origin.data(), token.data(), ended.data(), live.data()));
            const auto log_prob_of = [&](int64_t c) { return static_cast<double>(own[origin[c] * V + token[c]]); };
            for (int64_t c = 0; c < C && source.searching; ++c) {
                if (!ended[c]) continue;
                const int64_t row = b * K + origin[c];
                Hypothesis one = {beam.tokens[row], beam.log_probs[row], 0, 0};
                one.tokens.push_back(EOS);
                one.log_probs.push_back(log_prob_of(c));
                one.log_prob = total_of(one.log_probs);
                one.score = options.ranking(totals[c], static_cast<int64_t>(one.tokens.size()), source.length);
                source.finished.push_back(std::move(one));
            }
            double best = NEVER;
            for (int64_t k = 0; k < K; ++k) {
                const int64_t c = live[k], row = b * K + k, from = b * K + origin[c];
                follows[row] = from;
                last[row] = token[c];
                if (token[c] == EOS || totals[c] == NEVER) continue;
                next.totals[row] = totals[c];
                next.tokens[row] = beam.tokens[from];
                next.tokens[row].push_back(token[c]);
                next.log_probs[row] = beam.log_probs[from];
                next.log_probs[row].push_back(log_prob_of(c));
                best = std::max(best, totals[c]);
            }
            if (!source.searching || !is_finished(source, options, rows.written, best)) continue;
            source.searching = false;
            std::stable_sort(source.finished.begin(), source.finished.end(), [](const Hypothesis& one, const Hypothesis& two) { return one.score > two.score; });
            if (static_cast<int64_t>(source.finished.size()) > options.nbest) source.finished.resize(options.nbest);
            found[source.key] = std::move(source.finished);
        }
        beam = std::move(next);
        if (!rows.searching()) break;
        rows.state().follow(follows);
        const std::vector<int64_t> staying = rows.remaining();
        if (staying.empty()) continue;
        const std::vector<int64_t> moved = rows_of(staying, K);
        gather(last, 1, moved);
        gather(beam.totals, 1, moved);
        gather(beam.tokens, 1, moved);
        gather(beam.log_probs, 1, moved);
        rows.keep(staying);
    }
    return found;
}

}  // namespace

static Found sample(Rows& rows, const Batch& batch, const Options& options);  // sampling.cpp

Found Autoregressive::search(const Batch& batch, const Options& options) const {
    Rows rows(*this, batch, options);
    if (options.kind == Options::SAMPLING) return sample(rows, batch, options);
    return options.kind == Options::GREEDY ? search_greedily(rows, options) : search_by_beam(rows, options);
}

// ---------------------------------------------------------------- given outputs

void check_target(const std::vector<int64_t>& target, int64_t vocabulary) {
    for (int64_t id : target)
        if (id < EOS || id >= vocabulary) throw Refusal("id " + std::to_string(id) + " cannot stand in an output");
}

Found Autoregressive::score(const Batch& batch, const Targets& targets) const {
    Found found(targets.size(), std::vector<Hypothesis>(1));
    const int64_t V = target_vocabulary(), B = batch.sources();
    size_t longest = 0;
    for (const auto* target : targets) {
        check_target(*target, V);
        longest = std::max(longest, target->size());
    }
    const std::unique_ptr<State> state = start(batch, 1);
    std::vector<int64_t> read(B, BOS);
    std::vector<float> features(B * width()), logits(B * V);
    for (size_t t = 0; t < longest; ++t) {
        state->step(read.data(), features.data());
        read_out(features.data(), B, logits.data());
        for (int64_t b = 0; b < B; ++b) {
            if (t >= targets[b]->size()) continue;
            double log_prob;
            int64_t token;
            read[b] = (*targets[b])[t];
            Hypothesis& own = found[b][0];
            choose_token(logits.data() + b * V, V, false, true, false, token, log_prob);
            own.choose(token, log_prob);
            transduce_highest(logits.data() + b * V, &read[b], 1, V, EOS, &token, &log_prob);
            own.tokens.push_back(token);
            own.log_probs.push_back(log_prob);
        }
    }
    for (auto& own : found) own[0].score = own[0].log_prob = total_of(own[0].log_probs);
    return found;
}

}  // namespace transduce

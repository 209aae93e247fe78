// Greedy search and beam search of models that write token by token. search.h explains them; sampling.cpp has the rest.

#include "search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "refusal.h"

namespace transduce {

const double NEVER = -std::numeric_limits<double>::infinity();
const float IMPOSSIBLE_LOGIT = -std::numeric_limits<float>::infinity();
const double STUCK = 1e6;       // penalty of an end where no token is allowed (search/next_tokens.py)
const int64_t GROUP_ROWS = 48;  // of a group
const double MISSING = 1e6;     // penalty of an early end for each missing token (search/constraints/banks.py)

static uint64_t dice_of(int64_t seed, const int64_t* ids, int64_t count);  // sampling.cpp

static double total_of(const std::vector<double>& log_probs) {
    return std::accumulate(log_probs.begin(), log_probs.end(), 0.0);
}

// ---------------------------------------------------------------- sources that enter, step and leave

void SearchGroup::keep(const std::vector<int64_t>& staying) {
    if (staying.size() == sources.size()) return;
    std::vector<Searched> found;
    for (int64_t b : staying) found.push_back(std::move(sources[b]));
    sources.swap(found);
    gather(last, 1, rows_of(staying, each));
    if (!staying.empty()) state->keep(staying);
}

void SearchGroup::join(SearchGroup& other) {
    state->join(*other.state);
    for (Searched& source : other.sources) sources.push_back(std::move(source));
    last.insert(last.end(), other.last.begin(), other.last.end());
}

// The sources of a group at most.
int64_t Search::most() const { return std::max<int64_t>(1, GROUP_ROWS / options_.size); }

// A group that has not done its first step.
SearchGroup Search::begun(const Batch& batch, const int64_t* keys) {
    SearchGroup group;
    for (int64_t b = 0; b < batch.sources(); ++b) {
        const int64_t length = batch.lengths[b];
        Searched source = {
            keys[b], length, options_.limit.least(length), options_.longest(length), {}, {}, 0, 0, false, {}, {}};
        if (!batch.wanted.empty()) source.wanted = *batch.wanted[b];
        if (!source.wanted.listed.empty() && model_.readout() != nullptr)
            source.readout = std::make_shared<Matrix>(*model_.readout(), source.wanted.listed);
        Active begun = {};
        if (source.wanted.forbidden) begun.forbidden = source.wanted.forbidden->start();
        if (source.wanted.required) begun.required = source.wanted.required->start();
        source.active.assign(options_.size, begun);
        if (options_.kind == Options::SAMPLING)
            source.dice = dice_of(options_.seed, batch.ids.data() + b * batch.longest, length);
        for (size_t k = 1; k < source.active.size() && options_.kind == Options::BEAM; ++k)
            source.active[k].score = NEVER;  // of equal ones, the first counts
        group.sources.push_back(std::move(source));
    }
    group.last.assign(batch.sources(), BOS);
    group.state = model_.start(batch, options_.size);
    return group;
}

void Search::enter(const Batch& batch, const std::vector<int64_t>& keys) {
    // The first step needs one row for each source, so new sources do it before they join others.
    const int64_t B = batch.sources(), parts = (B + most() - 1) / most();
    const auto ended = static_cast<std::ptrdiff_t>(ended_.size());
    std::vector<SearchGroup> entering;
    try {
        for (int64_t p = 0; p < parts; ++p) {
            const int64_t first = p * B / parts, last = (p + 1) * B / parts;
            entering.push_back(begun(parts == 1 ? batch : batch.part(first, last), keys.data() + first));
            step(entering.back());
        }
    } catch (...) {  // then none enters
        ended_.erase(ended_.begin() + ended, ended_.end());
        throw;
    }
    for (SearchGroup& group : entering) {
        if (group.sources.empty()) continue;
        const auto has_room = [&](const SearchGroup& other) {
            return static_cast<int64_t>(other.sources.size() + group.sources.size()) <= most();
        };
        const auto other = std::find_if(groups_.begin(), groups_.end(), has_room);
        if (other == groups_.end())
            groups_.push_back(std::move(group));
        else
            other->join(group);
    }
}

void Search::step() {
    for (SearchGroup& group : groups_) step(group);
    forget_empty();
}

void Search::step(SearchGroup& group) {
    const int64_t B = static_cast<int64_t>(group.sources.size()), V = model_.target_vocabulary(), K = options_.size;

    // Each row reads its last token.
    grow(features_, group.last.size() * model_.width());
    grow(logits_, group.last.size() * V);
    group.state->step(group.last.data(), features_.data());
    read_out(group);

    // Each source chooses. A source's only row becomes K equal ones first.
    if (options_.kind != Options::GREEDY) score_rows(group);
    if (group.each != K) {
        grow(logits_, B * K * V);
        for (int64_t n = B * K; n-- > 0;)  // from the last row, because row n / K is not written before it was read
            if (n != n / K) std::copy_n(logits_.data() + n / K * V, V, logits_.data() + n * V);
        gather(penalties_, 1, repeated(B, K));
        gather(group.last, 1, repeated(B, K));
        group.state->spread(K);
        group.each = K;
    }
    if (options_.kind == Options::GREEDY)
        choose_best(group);
    else if (options_.kind == Options::BEAM)
        choose_by_beam(group);
    else
        draw(group);

    // Those that have ended leave.
    std::vector<int64_t> staying;
    for (int64_t b = 0; b < B; ++b)
        if (group.sources[b].ended)
            ended_.emplace_back(group.sources[b].key, std::move(group.sources[b].finished));
        else
            staying.push_back(b);
    if (options_.kind == Options::BEAM && !staying.empty()) group.state->follow(follows_);
    group.keep(staying);
}

void Search::drop(const std::vector<int64_t>& keys) {
    for (SearchGroup& group : groups_) {
        std::vector<int64_t> staying;
        for (size_t b = 0; b < group.sources.size(); ++b)
            if (std::find(keys.begin(), keys.end(), group.sources[b].key) == keys.end())
                staying.push_back(static_cast<int64_t>(b));
        group.keep(staying);
    }
    forget_empty();
}

void Search::forget_empty() {
    const auto is_empty = [](const SearchGroup& group) { return group.sources.empty(); };
    groups_.erase(std::remove_if(groups_.begin(), groups_.end(), is_empty), groups_.end());
}

Found Autoregressive::search(const Batch& batch, const Options& options) const {
    Search search(*this, options);
    std::vector<int64_t> keys(batch.sources());
    std::iota(keys.begin(), keys.end(), int64_t(0));
    search.enter(batch, keys);
    while (search.searching()) search.step();
    Found found(batch.sources());
    for (auto& each : search.take_ended()) found[each.first] = std::move(each.second);
    return found;
}

std::unique_ptr<Search> Autoregressive::begin(const Options& options) const { return std::make_unique<Search>(*this, options); }

std::unique_ptr<Search> Model::begin(const Options&) const {
    throw Refusal("this model answers whole batches: sources enter a search that writes token by token");
}

// ---------------------------------------------------------------- what may come next

void Searched::write(Active& own, int64_t token, double log_prob) const {
    own.tokens.push_back(token);
    own.log_probs.push_back(log_prob);
    if (wanted.forbidden) own.forbidden = wanted.forbidden->after(own.forbidden, token);
    if (wanted.required) own.required = wanted.required->after(own.required, token);
}

// The logits of each row. A source with a list is searched by the model restricted to it.
void Search::read_out(const SearchGroup& group) {
    const int64_t V = model_.target_vocabulary();
    const auto& sources = group.sources;
    if (std::any_of(sources.begin(), sources.end(), [](const Searched& source) { return !source.readout; }))
        model_.read_out(features_.data(), static_cast<int64_t>(group.last.size()), logits_.data());
    for (size_t b = 0; b < sources.size(); ++b) {
        const std::vector<int64_t>& listed = sources[b].wanted.listed;
        const size_t first = b * group.each, L = listed.size();
        if (sources[b].readout) {
            some_.resize(group.each * L);
            transduce::check(transduce_multiply(
                sources[b].readout.get(), features_.data() + first * model_.width(), some_.data(), group.each, NONE));
        }
        for (size_t n = first; n < first + group.each; ++n) {
            float* logits = logits_.data() + n * V;
            if (sources[b].readout)
                std::copy_n(some_.data() + (n - first) * L, L, logits);
            else
                for (size_t i = 0; i < L; ++i) logits[i] = logits[listed[i]];
        }
    }
}

// Finds the tokens that complete a forbidden phrase of a source. False if it has none.
bool Search::bar(const Searched& source, const Active& own) {
    if (!source.wanted.forbidden) return false;
    barred_.assign(model_.target_vocabulary(), false);
    source.wanted.forbidden->bar(own.forbidden, source.written + 2 == source.most, barred_);
    return true;
}

// ---------------------------------------------------------------- greedy search

// The most probable token of a row that may come next, and its log-probability among all tokens. It is the end if none may.
template <class Barred>
static void choose_token(
    const float* logits, int64_t V, bool must_end, const Barred& is_barred, int64_t& token, double& log_prob) {
    const int64_t end = EOS;
    transduce_highest(logits, must_end ? &end : nullptr, 1, V, EOS, &token, &log_prob);
    if (must_end || !is_barred(token)) return;
    int64_t chosen = EOS;
    float highest = IMPOSSIBLE_LOGIT;
    for (int64_t v = EOS; v < V; ++v) {
        if (!(logits[v] > highest) || is_barred(v)) continue;
        chosen = v;
        highest = logits[v];
    }
    transduce_highest(logits, &chosen, 1, V, EOS, &token, &log_prob);
}

void Search::choose_best(SearchGroup& group) {
    const int64_t V = model_.target_vocabulary();
    float* logits = logits_.data();
    for (size_t b = 0; b < group.sources.size(); ++b, logits += V) {
        Searched& source = group.sources[b];
        Active& own = source.active[0];
        double log_prob = 0;
        int64_t column;
        if (source.forced() >= 0) {
            const int64_t forced = source.column(source.forced());
            transduce_highest(logits, &forced, 1, source.columns(V), EOS, &column, &log_prob);
        } else {
            const bool some = bar(source, own);
            const auto is_barred = [&](int64_t token) {
                return (token == EOS && !source.may_end()) || (token == UNK && !options_.unknown) || (some && barred_[token]);
            };
            choose_token(logits, source.columns(V), source.must_end(), is_barred, column, log_prob);
        }
        group.last[b] = source.id(column);
        source.write(own, group.last[b], log_prob);
        ++source.written;
        if (group.last[b] != EOS) continue;
        source.ended = true;
        own.log_prob = own.score = total_of(own.log_probs);
        source.finished.push_back(std::move(own));
    }
}

// ---------------------------------------------------------------- beam search

// Log-probabilities [N, V] in place of logits, as scores: what may not come next has minus infinity. A prefix allows its
// token alone.
void Search::score_rows(const SearchGroup& group) {
    const int64_t N = static_cast<int64_t>(group.last.size()), stride = model_.target_vocabulary();
    penalties_.assign(N, 0.0);
    float* scores = logits_.data();
    for (int64_t n = 0; n < N; ++n, scores += stride) {
        const Searched& source = group.sources[n / group.each];
        const int64_t forced = source.forced(), V = source.columns(stride);
        transduce_log_softmax(scores, 1, V, EOS);
        const float ending = scores[EOS];
        if (forced >= 0 || source.must_end()) {
            const int64_t only = forced >= 0 ? source.column(forced) : EOS;
            const float own = scores[only];
            std::fill(scores, scores + V, IMPOSSIBLE_LOGIT);
            scores[only] = own;
            if (forced >= 0 || source.written + 1 >= options_.max_length) continue;  // nothing forbids these
        }
        if (!options_.unknown) scores[UNK] = IMPOSSIBLE_LOGIT;
        if (!source.may_end()) scores[EOS] = IMPOSSIBLE_LOGIT;
        const bool some = bar(source, source.active[n % group.each]);
        for (int64_t v = EOS; v < V && some; ++v)
            if (barred_[v]) scores[v] = IMPOSSIBLE_LOGIT;
        if ((some || !source.may_end()) && *std::max_element(scores, scores + V) == IMPOSSIBLE_LOGIT) {
            penalties_[n] = STUCK;
            scores[EOS] = ending;
        }
    }
}

// The outputs that a search returns: the best `count`.
static std::vector<Hypothesis> best_of(std::vector<Hypothesis>& some, int64_t count) {
    std::stable_sort(
        some.begin(), some.end(), [](const Hypothesis& one, const Hypothesis& two) { return one.score > two.score; });
    if (static_cast<int64_t>(some.size()) > count) some.resize(count);
    return std::move(some);
}

// True if the search drops the active hypotheses of a source, because none can still enter its n-best list. The best of them
// has the total `best`. Totals only fall. So the bound is the score with this total for an end now or as late as possible.
static bool is_finished(const Searched& source, const Options& options, double best) {
    if (best == NEVER || source.written == options.max_length) return true;
    if (static_cast<int64_t>(source.finished.size()) < options.nbest) return false;
    std::vector<double> scores;
    for (const Hypothesis& each : source.finished) scores.push_back(each.score);
    std::nth_element(scores.begin(), scores.begin() + options.nbest - 1, scores.end(), std::greater<double>());
    const double worst = scores[options.nbest - 1];
    if (static_cast<int64_t>(source.finished.size()) >= options.size)
        return options.ranking(best, source.written, source.length) <= worst;
    return std::max(options.ranking(best, source.written + 1, source.length),
               options.ranking(best, options.max_length, source.length)) <= worst;
}

// The K best continuations that do not end go on. One ends if its end is among the K best of all.
static Continuations best_continuations(const float* scores, const std::vector<double>& before, int64_t V) {
    const int64_t K = static_cast<int64_t>(before.size()), C = std::min(2 * K, K * std::min(K + 1, V));
    Continuations found = {std::vector<double>(C), std::vector<int64_t>(C), std::vector<int64_t>(C), std::vector<int64_t>(K),
        std::vector<uint8_t>(C)};
    transduce::check(transduce_choose(scores, before.data(), 1, K, V, EOS, found.totals.data(), found.origin.data(),
        found.column.data(), found.ended.data(), found.live.data()));
    return found;
}

// The places of the K continuations that get a place in the beam, where `totals` are finite. Each bank has those with as many
// tokens of the phrases; in each turn its next best one gets a place, and banks with more tokens go first.
static std::vector<int64_t> share_out(const std::vector<double>& totals, const std::vector<int64_t>& bank, int64_t K) {
    std::vector<int64_t> order;
    for (size_t c = 0; c < totals.size(); ++c)
        if (std::isfinite(totals[c])) order.push_back(static_cast<int64_t>(c));
    std::stable_sort(order.begin(), order.end(), [&](int64_t one, int64_t two) { return totals[one] > totals[two]; });
    std::vector<int64_t> turn(totals.size()), taken;
    for (int64_t c : order) {
        taken.resize(std::max<size_t>(taken.size(), bank[c] + 1));
        turn[c] = taken[bank[c]]++;
    }
    std::sort(order.begin(), order.end(),
        [&](int64_t one, int64_t two) { return turn[one] != turn[two] ? turn[one] < turn[two] : bank[one] > bank[two]; });
    if (static_cast<int64_t>(order.size()) > K) order.resize(K);
    return order;
}

// Dynamic beam allocation for required phrases (search/constraints/banks.py). An output may end only if it has all phrases. If
// no other continuation is left, one may end without them, and loses MISSING for each missing token.
static Continuations banked_continuations(
    const float* scores, const std::vector<double>& before, const Searched& source, int64_t V) {
    const Phrases& required = *source.wanted.required;
    const int64_t K = static_cast<int64_t>(before.size());
    Continuations found;
    std::vector<int64_t> order(V), bank;
    bool goes_on = false;
    for (int64_t k = 0; k < K; ++k, scores += V) {
        const auto is_better = [&](int64_t one, int64_t two) {
            return scores[one] != scores[two] ? scores[one] > scores[two] : one < two;
        };
        std::iota(order.begin(), order.end(), int64_t(0));
        std::vector<int64_t> tried(std::min(K + 1, V));
        std::partial_sort_copy(order.begin(), order.end(), tried.begin(), tried.end(), is_better);
        const ActiveStates& active = source.active[k].required;
        required.add_next(active, tried);
        for (int64_t token : tried) {
            const double total = before[k] + scores[token];
            if (!std::isfinite(total)) continue;
            found.totals.push_back(total);
            found.origin.push_back(k);
            found.column.push_back(token);
            bank.push_back(required.written(required.after(active, token)));
            goes_on = goes_on || token != EOS;
        }
    }
    for (size_t c = 0; c < bank.size(); ++c) {
        const int64_t missing = required.tokens() - bank[c];
        if (found.column[c] != EOS || missing <= 0) continue;
        found.totals[c] = goes_on ? NEVER : found.totals[c] - MISSING * static_cast<double>(missing);
    }
    found.ended.resize(bank.size());
    for (int64_t c : share_out(found.totals, bank, K)) found.ended[c] = found.column[c] == EOS;
    std::vector<double> going = found.totals;
    for (size_t c = 0; c < bank.size(); ++c)
        if (found.column[c] == EOS) going[c] = NEVER;
    found.live = share_out(going, bank, K);
    found.live.resize(K, static_cast<int64_t>(bank.size()));  // the other places are empty
    found.totals.push_back(NEVER);
    found.origin.push_back(0);
    found.column.push_back(EOS);
    found.ended.push_back(false);
    return found;
}

void Search::choose_by_beam(SearchGroup& group) {
    const int64_t K = options_.size, stride = model_.target_vocabulary();
    std::vector<double> before(K);
    follows_.resize(group.last.size());
    for (size_t b = 0; b < group.sources.size(); ++b) {
        Searched& source = group.sources[b];
        const int64_t row = static_cast<int64_t>(b) * K, V = source.columns(stride);
        const float* own = logits_.data() + row * stride;
        if (V != stride) {  // one row after the other
            some_.resize(K * V);
            for (int64_t k = 0; k < K; ++k) std::copy_n(own + k * stride, V, some_.data() + k * V);
            own = some_.data();
        }
        for (int64_t k = 0; k < K; ++k) before[k] = source.active[k].score - penalties_[row + k];
        const Continuations some =
            source.wanted.required ? banked_continuations(own, before, source, V) : best_continuations(own, before, V);

        // A hypothesis of the last step with one more token.
        const auto longer = [&](int64_t c) {
            Active one = source.active[some.origin[c]];
            source.write(one, source.id(some.column[c]), static_cast<double>(own[some.origin[c] * V + some.column[c]]));
            one.score = some.totals[c];
            return one;
        };
        ++source.written;
        for (size_t c = 0; c < some.ended.size(); ++c) {
            if (!some.ended[c]) continue;
            Hypothesis one = longer(static_cast<int64_t>(c));
            one.log_prob = total_of(one.log_probs);
            one.score = options_.ranking(some.totals[c], source.written, source.length);
            source.finished.push_back(std::move(one));
        }
        std::vector<Active> next(K);
        double best = NEVER;
        for (int64_t k = 0; k < K; ++k) {
            const int64_t c = some.live[k];
            follows_[row + k] = row + some.origin[c];
            group.last[row + k] = source.id(some.column[c]);
            const bool goes_on = some.column[c] != EOS && some.totals[c] != NEVER;
            next[k] = longer(c);
            if (!goes_on) next[k].score = NEVER;
            best = std::max(best, next[k].score);
        }
        source.active = std::move(next);
        source.ended = is_finished(source, options_, best);
        if (source.ended) source.finished = best_of(source.finished, options_.nbest);
    }
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
            choose_token(logits.data() + b * V, V, false, [](int64_t some) { return some == UNK; }, token, log_prob);
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

// Reads what a search is told. options.h explains it.

#include "options.h"

#include <algorithm>
#include <cmath>

#include "parts.h"
#include "refusal.h"

namespace transduce {

const double ROUNDED_TOKENS = 1e-9;  // because 1.4 * 45 gives 62.99999999999999
const int64_t LARGEST_SIZE = 1000;   // of a beam
const int64_t LONGEST = 100000;      // tokens of an output
const int64_t MOST_LISTED = 10000;   // target words of a source word
static const std::vector<std::string> KINDS = {"greedy", "beam", "labels", "viterbi", "posterior", "best-path", "prefix-beam",
    "sampling", "length-beam"};  // as in Options::Kind

double Ranking::operator()(double log_prob, int64_t length, int64_t source_length) const {
    const double y = static_cast<double>(length), expected = ratio * static_cast<double>(source_length);
    if (kind == AVERAGE) return log_prob / y;
    if (kind == WU) return log_prob / std::pow((5 + y) / 6, alpha);
    if (kind == BREVITY) return log_prob / y + std::min(0.0, 1 - expected / y);
    if (kind == REWARD) return log_prob + reward * std::min(y, expected);
    return log_prob;
}

int64_t LengthLimit::most(int64_t source_length) const {
    if (!limited) return LONGEST;
    const double found = maximum_ratio * static_cast<double>(source_length) + static_cast<double>(maximum) + ROUNDED_TOKENS;
    return std::max<int64_t>(1, static_cast<int64_t>(std::min(found, static_cast<double>(LONGEST))));
}

int64_t LengthLimit::least(int64_t source_length) const {
    const double found = minimum_ratio * static_cast<double>(source_length) + static_cast<double>(minimum) + ROUNDED_TOKENS;
    return std::min(most(source_length), static_cast<int64_t>(std::min(found, static_cast<double>(LONGEST))));
}

static const Json& with_type(const Json& value, Json& named) {
    if (value.kind == Json::TABLE) return value;
    named.kind = Json::TABLE;
    named.entries = {{"type", value}};
    return named;
}

static double optional(const Json& table, const char* name, double otherwise, double most) {
    const Json* found = table.find(name);
    return found == nullptr || found->kind == Json::NOTHING ? otherwise : table.real_in(name, 0, most);
}

static LengthLimit read_limit(const Json& filters) {
    LengthLimit limit;
    if (filters.items.size() > 1)
        throw Refusal("filters = " + filters.shown() + ": one filter of the length, or none, was expected");
    for (const Json& filter : filters.items) {
        filter.choice("type", {"length"});
        const auto given = [&](const char* name) {
            return filter.find(name) != nullptr && filter.find(name)->kind != Json::NOTHING;
        };
        limit.limited = given("maximum") || given("maximum_ratio");
        limit.minimum = static_cast<int64_t>(optional(filter, "minimum", 0, LONGEST));
        limit.maximum = static_cast<int64_t>(optional(filter, "maximum", 0, LONGEST));
        limit.minimum_ratio = optional(filter, "minimum_ratio", 0, 1e9);
        limit.maximum_ratio = optional(filter, "maximum_ratio", 0, 1e9);
    }
    return limit;
}

static Ranking read_ranking(const Json& search) {
    Json named;
    const Json& ranking = with_type(search.at("ranking"), named);
    static const std::vector<std::string> kinds = {"none", "average", "wu", "brevity", "bounded-reward"};
    return {static_cast<Ranking::Kind>(ranking.choice("type", kinds)), optional(ranking, "alpha", 0.6, 10),
        optional(ranking, "reward", 1, 1e9), optional(ranking, "length_ratio", 1, 1e9)};
}

static const double MOST_SEED = 9007199254740992;  // 2^53

static void read_sampling(const Json& search, Options& options) {
    options.temperature = search.real_in("temperature", 1e-300, 1e300);
    options.seed = search.number_in("seed", -static_cast<int64_t>(MOST_SEED), static_cast<int64_t>(MOST_SEED));
    for (const Json& each : search.at("truncations").items) {
        const auto kind = static_cast<Truncation::Kind>(each.choice("type", {"top-k", "nucleus", "epsilon"}));
        const double amount = kind == Truncation::TOP_K ? static_cast<double>(each.number_in("k", 1, LARGEST_NUMBER))
                                                        : each.real_in(kind == Truncation::NUCLEUS ? "p" : "epsilon", 0, 1);
        options.truncations.push_back({kind, amount});
    }
}

// Lists of labels, by their ids, and of their penalties; the table `penalties` of a run has names.
static void read_penalties(const Json& search, Options& options) {
    if (search.find("penalised") == nullptr) return;
    const std::vector<double> labels = search.reals_in("penalised", 0, LARGEST_NUMBER);
    const std::vector<double> amounts = search.reals_in("penalised_by", -1e6, 1e6);
    if (labels.size() != amounts.size()) throw Refusal("penalised_by: a penalty for each label was expected");
    for (size_t i = 0; i < labels.size(); ++i) options.penalties.emplace_back(static_cast<int64_t>(labels[i]), amounts[i]);
}

Options Options::of_samples(int64_t samples, int64_t length, double temperature, int64_t top_k, double top_p, int64_t seed) {
    Options found;
    found.kind = SAMPLING;
    found.size = found.nbest = samples;
    found.max_length = length;
    found.temperature = temperature;
    found.seed = seed;
    if (samples < 1 || samples > LARGEST_SIZE)
        throw Refusal("samples = " + std::to_string(samples) + ": 1 to " + std::to_string(LARGEST_SIZE) + " was expected");
    if (length < 1 || length > LONGEST)
        throw Refusal("length = " + std::to_string(length) + ": 1 to " + std::to_string(LONGEST) + " was expected");
    if (!(temperature > 0 && temperature < 1e300))
        throw Refusal("temperature = " + std::to_string(temperature) + ": a number above 0 was expected");
    if (top_k < 0) throw Refusal("top_k = " + std::to_string(top_k) + ": 1 or more was expected, or 0 for all tokens");
    if (!(top_p >= 0 && top_p <= 1))
        throw Refusal("top_p = " + std::to_string(top_p) + ": a probability was expected, or 0 for all tokens");
    if (top_k) found.truncations.push_back({Truncation::TOP_K, static_cast<double>(top_k)});
    if (top_p > 0) found.truncations.push_back({Truncation::NUCLEUS, top_p});
    return found;
}

Options Options::read(const Json& search) {
    Options found;
    found.kind = static_cast<Kind>(search.choice("type", KINDS));
    found.unknown = search.find("unknown") != nullptr && search.truth_of("unknown");
    if (found.kind == GREEDY || found.kind == BEAM || found.kind == SAMPLING) {
        found.max_length = search.number_in("max_length", 1, LONGEST);
        if (search.find("filters") != nullptr) found.limit = read_limit(search.at("filters"));
        if (search.find("shortlist") != nullptr) found.listed = search.number_in("shortlist", 1, MOST_LISTED);
    }
    if (found.kind == BEAM || found.kind == LENGTH_BEAM) found.ranking = read_ranking(search);
    if (found.kind == PREFIX_BEAM) found.bonus = search.real_in("bonus", -1e6, 1e6);
    if (found.kind == SAMPLING) read_sampling(search, found);
    if (found.kind == VITERBI) read_penalties(search, found);
    if (found.sized()) found.size = search.number_in("size", 1, LARGEST_SIZE);
    if (found.kind == SAMPLING && (search.find("nbest") == nullptr || search.at("nbest").kind == Json::NOTHING))
        found.nbest = found.size;
    else if (found.sized() || found.kind == LABELS || found.kind == VITERBI)
        found.nbest = search.number_in("nbest", 1, found.sized() ? found.size : LARGEST_SIZE);
    return found;
}

Options Options::resized(int64_t beam, int64_t outputs) const {
    Options found = *this;
    if (!beam && !outputs) return found;
    const auto refuse = [&](const std::string& why) {
        throw Refusal("nbest = " + std::to_string(found.nbest) + ", beam = " + std::to_string(found.size) + ": " + why);
    };
    if (found.kind == GREEDY) {
        found.kind = BEAM;
        found.size = 5;
        found.ranking.kind = Ranking::AVERAGE;
    }
    const bool every = kind == SAMPLING && nbest == size;  // then a larger size gives more outputs
    found.nbest = outputs ? outputs : every ? beam : found.sized() ? std::min(found.nbest, beam) : found.nbest;
    found.size = beam ? beam : found.sized() ? std::max(found.size, found.nbest) : 1;
    if (found.size < 1 || found.size > LARGEST_SIZE)
        throw Refusal("beam = " + std::to_string(found.size) + ": 1 to " + std::to_string(LARGEST_SIZE) + " was expected");
    if (found.kind == POSTERIOR || found.kind == BEST_PATH) {
        if (found.nbest != 1 || (found.kind == BEST_PATH && found.size != 1))
            refuse("the search '" + KINDS[found.kind] + "' has one output");
    } else if (found.nbest < 1 || found.nbest > LARGEST_SIZE || (found.sized() && found.nbest > found.size)) {
        refuse("a beam of n has room for 1 to n outputs");
    }
    return found;
}

int64_t Options::longest(int64_t source_length) const { return std::min(max_length, limit.most(source_length)); }

}  // namespace transduce

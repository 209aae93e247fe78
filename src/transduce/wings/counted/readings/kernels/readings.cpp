// The lattices and steps that readings.h describes.

#include "readings.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "numbers.h"
#include "team.h"

namespace transduce {

const float LEFT_OUT = -9.0f;   // as in wings/counted/readings/reader.py
const double ROUNDING = 1e-6;   // as there
const double NOTHING = -1e300;  // the logarithm of 0: finite, so that differences of it are numbers
const float LEAST = -1e30f;     // the same for the log-probability of one unit
const int64_t PADDING = 0, NO_UNIT = -1, NO_NODE = -1;

static inline float bounded(float log_prob) { return log_prob < LEAST ? LEAST : log_prob; }

static inline double log_sum(double a, double b) {
    const double larger = a > b ? a : b, smaller = a > b ? b : a;
    return smaller <= NOTHING ? larger : larger + std::log1p(std::exp(smaller - larger));
}

// A place in a source together with a history of the n-gram model. `reached` is the log-sum of all paths to it.
struct ReadingNode {
    int64_t place, history;
    float reached;
};

struct ReadingArc {
    int64_t start, stop, unit;
    float log_prob;
};

// An arc before pruning: it leads to `history`, and `reached` is the log-sum of all paths that end with it.
struct ReadingSteps {
    int64_t start, unit, history;
    float log_prob, reached;
};

// An arc that writes one token, or none (PADDING).
struct WrittenArc {
    int64_t start, stop, token;
    double chance;
};

struct Lattice {
    std::vector<WrittenArc> arcs;
    std::vector<double> ending;  // of each node
    int64_t writing, depth;      // arcs that write, and the largest number of silent arcs in a row
};

struct Lattices {
    std::vector<Lattice> each;
};

class Reader {
  public:
    explicit Reader(const JointNgrams& model) : model_(model), words_(model.end + 2) {}

    Lattice read(const int64_t* source, int64_t length) {
        graph(source, length);
        keep_near(length);
        return packed(length);
    }

  private:
    struct Units {
        int64_t first, last;  // units first to last - 1
    };

    const JointNgrams& model_;
    const int64_t words_;
    std::vector<ReadingNode> nodes_;
    std::vector<ReadingArc> arcs_;                    // in the order of the places where they end
    std::vector<std::vector<ReadingSteps>> pending_;  // by the place where they end
    std::vector<float> log_prob_;                     // of the units of a piece after a history
    std::vector<int64_t> after_;                      // the history after each of them, or NO_NODE if it is not known yet
    std::vector<double> ahead_, behind_;

    // ------------------------------------------------------------ the n-gram model

    // The units that have exactly these source tokens.
    Units units_of(const int64_t* tokens, int64_t size) const {
        const int64_t S = model_.source_tokens, stride = S + model_.target_tokens;
        const auto bound = [&](bool upper) {
            int64_t low = 0, high = model_.unit_count;
            while (low < high) {
                const int64_t middle = (low + high) / 2;
                const int order = compared(model_.units + middle * stride, tokens, size, S);
                if (order < 0 || (upper && order == 0))
                    low = middle + 1;
                else
                    high = middle;
            }
            return low;
        };
        return {bound(false), bound(true)};
    }

    static int compared(const int64_t* unit, const int64_t* tokens, int64_t size, int64_t most) {
        for (int64_t i = 0; i < most; ++i) {
            const int64_t token = i < size ? tokens[i] : PADDING;
            if (unit[i] != token) return unit[i] < token ? -1 : 1;
        }
        return 0;
    }

    // Finds the log-probability of each of these words after a history, and the next history.
    void query(int64_t history, Units words) {
        const int64_t count = words.last - words.first;
        log_prob_.resize(count);
        after_.assign(count, NO_NODE);
        float left = 0.0f;  // what longer histories have left
        const int64_t *end = model_.keys + model_.ngram_count - 1, *from;
        for (int64_t missing = count;; history = model_.suffix[history]) {
            const int64_t key = history * words_;
            from = std::lower_bound(model_.keys, end, key + words.first);
            for (; from != end && *from < key + words.last; ++from) {
                const int64_t word = *from - key - words.first, ngram = from - model_.keys + 1;
                if (after_[word] != NO_NODE) continue;
                log_prob_[word] = bounded(left + model_.log_prob[ngram]);
                after_[word] = model_.after[ngram];
                --missing;
            }
            if (missing == 0 || history == 0) return;
            left = bounded(left + model_.back_off[history]);
        }
    }

    double log_prob_of_end(int64_t history) {
        query(history, {model_.end, model_.end + 1});
        return log_prob_[0];
    }

    // ------------------------------------------------------------ from left to right

    // Makes the nodes that remain after the pruning at each place, and the arcs that end at them.
    void graph(const int64_t* source, int64_t length) {
        nodes_.assign(1, {0, model_.begun, 0.0f});
        arcs_.clear();
        pending_.resize(length + model_.source_tokens + 1);
        for (auto& steps : pending_) steps.clear();
        int64_t first = 0;  // node of the place
        for (int64_t place = 0; place < length; ++place) {
            const int64_t last = static_cast<int64_t>(nodes_.size());
            for (int64_t size = 1; size <= model_.source_tokens && place + size <= length; ++size)
                step(units_of(source + place, size), size == 1, first, last, pending_[place + size]);
            first = last;
            arrive(pending_[place + 1], place + 1);
        }
    }

    // The steps over one piece of the source, from the nodes first to last - 1. A token that has no unit alone can be left
    // out, so that each source has a reading.
    void step(Units units, bool alone, int64_t first, int64_t last, std::vector<ReadingSteps>& steps) {
        if (units.first == units.last) {
            for (int64_t q = first; alone && q < last; ++q)
                steps.push_back({q, NO_UNIT, nodes_[q].history, LEFT_OUT, nodes_[q].reached + LEFT_OUT});
            return;
        }
        for (int64_t q = first; q < last; ++q) {
            query(nodes_[q].history, units);
            for (int64_t u = units.first; u < units.last; ++u) {
                const float log_prob = log_prob_[u - units.first];
                steps.push_back({q, u, after_[u - units.first], log_prob, nodes_[q].reached + log_prob});
            }
        }
    }

    // Adds the nodes that the steps lead to, after pruning, and the steps to them as arcs.
    void arrive(const std::vector<ReadingSteps>& steps, int64_t place) {
        static thread_local std::vector<int64_t> order, node_of;
        static thread_local std::vector<float> greatest, sum;
        static thread_local std::vector<ReadingNode> reached;
        const size_t count = steps.size();
        order.resize(count);
        for (size_t i = 0; i < count; ++i) order[i] = static_cast<int64_t>(i);
        std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
            return steps[a].history != steps[b].history ? steps[a].history < steps[b].history : a < b;
        });
        node_of.resize(count);
        reached.clear();
        greatest.clear();
        for (const int64_t i : order) {
            if (reached.empty() || reached.back().history != steps[i].history) {
                reached.push_back({place, steps[i].history, 0.0f});
                greatest.push_back(steps[i].reached);
            }
            greatest.back() = std::max(greatest.back(), steps[i].reached);
            node_of[i] = static_cast<int64_t>(reached.size()) - 1;
        }
        sum.assign(reached.size(), 0.0f);
        for (size_t i = 0; i < count; ++i) sum[node_of[i]] += std::exp(steps[i].reached - greatest[node_of[i]]);
        for (size_t q = 0; q < reached.size(); ++q) reached[q].reached = std::log(sum[q]) + greatest[q];

        const std::vector<int64_t>& number = kept(reached);
        for (size_t i = 0; i < count; ++i)
            if (number[node_of[i]] != NO_NODE)
                arcs_.push_back({steps[i].start, number[node_of[i]], steps[i].unit, steps[i].log_prob});
    }

    // Adds the probable ones of the nodes. Returns the number of each node, or NO_NODE for the others.
    const std::vector<int64_t>& kept(const std::vector<ReadingNode>& reached) {
        static thread_local std::vector<int64_t> probable, number;
        number.assign(reached.size(), NO_NODE);
        probable.clear();
        float best = reached[0].reached;
        for (const ReadingNode& node : reached) best = std::max(best, node.reached);
        const float least = best - static_cast<float>(model_.beam);
        for (size_t q = 0; q < reached.size(); ++q)
            if (reached[q].reached >= least) probable.push_back(static_cast<int64_t>(q));
        if (static_cast<int64_t>(probable.size()) > model_.width) {
            std::stable_sort(probable.begin(), probable.end(),
                [&](int64_t a, int64_t b) { return reached[a].reached > reached[b].reached; });
            probable.resize(model_.width);
            std::sort(probable.begin(), probable.end());
        }
        for (const int64_t q : probable) {
            number[q] = static_cast<int64_t>(nodes_.size());
            nodes_.push_back(reached[q]);
        }
        return number;
    }

    // ------------------------------------------------------------ from right to left

    // Removes the arcs that are in no reading near the best one, and the nodes that only they reach.
    void keep_near(int64_t length) {
        const size_t Q = nodes_.size();
        look_ahead(length, [](double a, double b) { return std::max(a, b); });
        behind_.assign(Q, NOTHING);
        behind_[0] = 0.0;
        for (const ReadingArc& arc : arcs_) behind_[arc.stop] = std::max(behind_[arc.stop], behind_[arc.start] + arc.log_prob);
        const double least = ahead_[0] - model_.beam - ROUNDING;
        // rounding may separate an arc from its reading: keep only arcs that lead from the beginning to an end
        std::vector<char> near(arcs_.size()), onward(Q), begun(Q);
        for (size_t q = 0; q < Q; ++q) onward[q] = nodes_[q].place == length;
        begun[0] = 1;
        for (size_t e = arcs_.size(); e-- > 0;) {
            const ReadingArc& arc = arcs_[e];
            near[e] = behind_[arc.start] + arc.log_prob + ahead_[arc.stop] >= least && onward[arc.stop];
            if (near[e]) onward[arc.start] = 1;
        }
        for (size_t e = 0; e < arcs_.size(); ++e) {
            near[e] = near[e] && begun[arcs_[e].start];
            if (near[e]) begun[arcs_[e].stop] = 1;
        }
        std::vector<int64_t> number(Q, NO_NODE);
        size_t nodes = 0, arcs = 0;
        for (size_t q = 0; q < Q; ++q)
            if (onward[q] && begun[q]) {
                number[q] = static_cast<int64_t>(nodes);
                nodes_[nodes++] = nodes_[q];
            }
        for (size_t e = 0; e < arcs_.size(); ++e)
            if (near[e]) {
                const ReadingArc& arc = arcs_[e];
                arcs_[arcs++] = {number[arc.start], number[arc.stop], arc.unit, arc.log_prob};
            }
        nodes_.resize(nodes);
        arcs_.resize(arcs);
    }

    // `ahead_` of each node: all paths to the end of the source, joined by `both`.
    template <class Both>
    void look_ahead(int64_t length, const Both& both) {
        ahead_.assign(nodes_.size(), NOTHING);
        for (size_t q = 0; q < nodes_.size(); ++q)
            if (nodes_[q].place == length) ahead_[q] = log_prob_of_end(nodes_[q].history);
        for (size_t e = arcs_.size(); e-- > 0;) {
            const ReadingArc& arc = arcs_[e];
            ahead_[arc.start] = both(ahead_[arc.start], arc.log_prob + ahead_[arc.stop]);
        }
    }

    // The lattice with one token for each arc. An arc that writes several becomes a chain, with new nodes between.
    Lattice packed(int64_t length) {
        look_ahead(length, log_sum);
        Lattice lattice;
        for (const ReadingNode& node : nodes_) lattice.ending.push_back(node.place == length ? 1.0 : 0.0);
        const int64_t S = model_.source_tokens, T = model_.target_tokens;
        const auto written = [&](int64_t unit, int64_t t) {
            return unit == NO_UNIT ? PADDING : model_.units[unit * (S + T) + S + t];
        };
        for (const ReadingArc& arc : arcs_) {
            const double chance = std::exp(arc.log_prob + ahead_[arc.stop] - ahead_[arc.start]);
            lattice.arcs.push_back({arc.start, arc.stop, written(arc.unit, 0), chance});
        }
        std::vector<size_t> last(arcs_.size());  // arc of each chain
        for (size_t e = 0; e < arcs_.size(); ++e) last[e] = e;
        for (int64_t t = 1; t < T; ++t)
            for (size_t e = 0; e < arcs_.size(); ++e) {
                const int64_t token = written(arcs_[e].unit, t);
                if (token == PADDING) continue;
                const int64_t between = static_cast<int64_t>(lattice.ending.size());
                lattice.ending.push_back(0.0);
                const WrittenArc longer = {between, lattice.arcs[last[e]].stop, token, 1.0};
                lattice.arcs[last[e]].stop = between;
                last[e] = lattice.arcs.size();
                lattice.arcs.push_back(longer);
            }
        count_silent(lattice);
        return lattice;
    }

    // Nodes are in the order of their places, so an arc's start is complete before the arc comes.
    static void count_silent(Lattice& lattice) {
        std::vector<int64_t> silent(lattice.ending.size());  // arcs in a row that end at each node
        lattice.writing = lattice.depth = 0;
        for (const WrittenArc& arc : lattice.arcs) {
            if (arc.token != PADDING) {
                ++lattice.writing;
            } else if (arc.chance > 0.0) {
                silent[arc.stop] = std::max(silent[arc.stop], silent[arc.start] + 1);
                lattice.depth = std::max(lattice.depth, silent[arc.stop]);
            }
        }
    }
};

// The state of one row. `at` has the probability of each node.
class ReadingRow {
  public:
    ReadingRow(const ReadingTables& tables, int64_t source)
        : E_(tables.arcs), Q_(tables.nodes), depth_(tables.depth), start_(tables.start + source * E_),
          stop_(tables.stop + source * E_), token_(tables.token + source * E_), chance_(tables.chance + source * E_),
          silent_(tables.silent + source * Q_), silent_stop_(tables.silent_stop + source * Q_),
          ending_(tables.ending + source * Q_) {}

    // Takes the arcs that write the token. Returns the ending's probability, and writes that of each next arc.
    double write(
        int64_t token, const double* next, double* next_after, std::vector<double>& at, std::vector<double>& moved) const {
        at.assign(Q_, 0.0);
        double total = 0.0;
        for (int64_t e = 0; e < E_; ++e)
            if (token_[e] == token) {
                at[stop_[e]] += next[e];
                total += next[e];
            }
        if (total > 0.0)
            for (double& probability : at) probability /= total;
        return move_on(next_after, at, moved);
    }

    // The state at node 0.
    double begin(double* next, std::vector<double>& at, std::vector<double>& moved) const {
        at.assign(Q_, 0.0);
        at[0] = 1.0;
        return move_on(next, at, moved);
    }

    // Goes from the nodes through silent arcs. Returns and writes what `write` does.
    double move_on(double* next_after, std::vector<double>& at, std::vector<double>& moved) const {
        moved = at;
        for (int64_t more = 0; more < depth_; ++more) {
            std::vector<double> onward(Q_, 0.0);
            for (int64_t q = 0; q < Q_; ++q) onward[silent_stop_[q]] += moved[q] * silent_[q];
            for (int64_t q = 0; q < Q_; ++q) at[q] += onward[q];
            moved.swap(onward);
        }
        for (int64_t e = 0; e < E_; ++e) next_after[e] = at[start_[e]] * chance_[e];
        double ending = 0.0;
        for (int64_t q = 0; q < Q_; ++q) ending += at[q] * ending_[q];
        return ending;
    }

    // The log-probability of each token from the probabilities of the next arcs and of the ending.
    void score(
        const double* next, double ending, const ReadingStep& step, std::vector<double>& probability, float* log_probs) const {
        const int64_t V = step.vocabulary;
        probability.assign(V, 0.0);
        for (int64_t e = 0; e < E_; ++e) probability[token_[e]] += next[e];
        probability[step.end] += ending;
        double total = 0.0;
        for (const double each : probability) total += each;
        const double even = 1.0 / static_cast<double>(V - 2), kept = total > 0.0 ? 1.0 - step.escape : 0.0;
        const double escaped = total > 0.0 ? step.escape * even : even;
        for (int64_t v = 0; v < V; ++v) log_probs[v] = static_cast<float>(std::log(kept * probability[v] + escaped));
        log_probs[PADDING] = log_probs[step.begin] = -std::numeric_limits<float>::infinity();
    }

  private:
    const int64_t E_, Q_, depth_;
    const int64_t *start_, *stop_, *token_;
    const double *chance_, *silent_;
    const int64_t* silent_stop_;
    const double* ending_;
};

}  // namespace transduce

using namespace transduce;

Lattices* transduce_read_sources(const JointNgrams* model, const int64_t* sources, const int64_t* lengths, int64_t rows,
    int64_t longest, ReadingTables* tables) try {
    std::unique_ptr<Lattices> lattices(new Lattices);
    lattices->each.resize(rows);
    Team::of_process().share(
        static_cast<int>(rows), [&](int b) { lattices->each[b] = Reader(*model).read(sources + b * longest, lengths[b]); });
    tables->sources = rows;
    tables->arcs = tables->nodes = tables->depth = 0;
    for (const Lattice& lattice : lattices->each) {
        tables->arcs = std::max(tables->arcs, lattice.writing);
        tables->nodes = std::max(tables->nodes, static_cast<int64_t>(lattice.ending.size()));
        tables->depth = std::max(tables->depth, lattice.depth);
    }
    return lattices.release();
} catch (const std::exception&) {
    return nullptr;
}

void transduce_take_lattices(Lattices* lattices, const ReadingTables* tables) {
    const int64_t B = tables->sources, E = tables->arcs, Q = tables->nodes;
    for (int64_t* each : {tables->start, tables->stop, tables->token}) std::fill(each, each + B * E, 0);
    std::fill(tables->chance, tables->chance + B * E, 0.0);
    std::fill(tables->silent, tables->silent + B * Q, 0.0);
    std::fill(tables->silent_stop, tables->silent_stop + B * Q, 0);
    std::fill(tables->ending, tables->ending + B * Q, 0.0);
    for (int64_t b = 0; b < B; ++b) {
        const Lattice& lattice = lattices->each[b];
        std::copy(lattice.ending.begin(), lattice.ending.end(), tables->ending + b * Q);
        int64_t at = b * E;
        for (const WrittenArc& arc : lattice.arcs) {
            if (arc.token == PADDING) {
                tables->silent[b * Q + arc.start] = arc.chance;
                tables->silent_stop[b * Q + arc.start] = arc.stop;
                continue;
            }
            tables->start[at] = arc.start;
            tables->stop[at] = arc.stop;
            tables->token[at] = arc.token;
            tables->chance[at++] = arc.chance;
        }
    }
    delete lattices;
}

int64_t transduce_begin_readings(const ReadingTables* tables, double* next, double* ending) {
    return guarded([=]() -> int64_t {
        std::vector<double> at, moved;
        for (int64_t b = 0; b < tables->sources; ++b)
            ending[b] = ReadingRow(*tables, b).begin(next + b * tables->arcs, at, moved);
        return DONE;
    });
}

int64_t transduce_reading_step(const ReadingTables* tables, const ReadingStep* step) {
    return guarded([=]() -> int64_t {
        static thread_local std::vector<double> at, moved, probability;
        const int64_t E = tables->arcs, each = step->rows / tables->sources;
        for (int64_t n = 0; n < step->rows; ++n) {
            const ReadingRow row(*tables, n / each);
            double* next = step->next_after + n * E;
            if (step->tokens[n] == step->begin) {
                std::copy(step->next + n * E, step->next + (n + 1) * E, next);
                step->ending_after[n] = step->ending[n];
            } else {
                step->ending_after[n] = row.write(step->tokens[n], step->next + n * E, next, at, moved);
            }
            row.score(next, step->ending_after[n], *step, probability, step->log_probs + n * step->vocabulary);
        }
        return DONE;
    });
}

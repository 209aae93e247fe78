// Linear chains: taggers whose labels depend on the label before (core/chain.py), and their mixtures. Viterbi's search and
// the posteriors are those of wings/labels/viterbi.py. Letters: T places, L labels, K ways.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "models.h"
#include "refusal.h"

namespace transduce {

// The scores of the label sequences of one source: `unary` [T, L], `transition` [L, L] from a label to the next, `start`
// and `end` [L].
struct Trellis {
    int64_t places, labels;
    std::vector<double> unary, transition, start, end;

    double from(int64_t t, int64_t before, int64_t label) const {
        return t == 0 ? start[label] : transition[before * labels + label];
    }

    // [T, L]: the log-sum over all ways that go on from a label, without its own score; with the score of the end.
    std::vector<double> backward() const {
        std::vector<double> found(places * labels), sums(labels);
        if (places) std::copy(end.begin(), end.end(), found.end() - labels);
        for (int64_t t = places - 1; t-- > 0;)
            for (int64_t i = 0; i < labels; ++i) {
                for (int64_t j = 0; j < labels; ++j)
                    sums[j] = from(t + 1, i, j) + unary[(t + 1) * labels + j] + found[(t + 1) * labels + j];
                found[t * labels + i] = log_sum_of(sums);
            }
        return found;
    }

    static double log_sum_of(const std::vector<double>& x) {
        const double most = *std::max_element(x.begin(), x.end());
        double sum = 0;
        for (double each : x) sum += std::exp(each - most);
        return most + std::log(sum);
    }
};

// The output of these labels: the log-probability of a label is that after the labels before it, as is that of the choice.
static Hypothesis chained(const Trellis& trellis, const std::vector<double>& backward, const std::vector<int64_t>& labels) {
    const int64_t L = trellis.labels;
    std::vector<double> each, every(L);
    Hypothesis choices = {};
    for (int64_t t = 0; t < trellis.places; ++t) {
        for (int64_t j = 0; j < L; ++j)
            every[j] = trellis.from(t, t ? labels[t - 1] : 0, j) + trellis.unary[t * L + j] + backward[t * L + j];
        const double whole = Trellis::log_sum_of(every);
        each.push_back(every[labels[t]] - whole);
        const int64_t best = best_label(every.data(), L);
        choices.choose(best, every[best] - whole);
    }
    return labelled(labels, std::move(each), std::move(choices));
}

class Chain : public Model {
  public:
    // One trellis for each source.
    virtual std::vector<Trellis> trellises(const Batch& batch) const = 0;

    std::vector<Options::Kind> searches() const override { return {Options::VITERBI, Options::POSTERIOR}; }

    Found search(const Batch& batch, const Options& options) const override {
        Found found;
        for (const Trellis& trellis : trellises(batch)) {
            const std::vector<double> backward = trellis.backward();
            found.emplace_back();
            Trellis lowered = trellis;
            for (const auto& each : options.penalties)
                for (int64_t t = 0; t < trellis.places && each.first < trellis.labels; ++t)
                    lowered.unary[t * trellis.labels + each.first] -= each.second;
            const auto ways = options.kind == Options::VITERBI ? best_ways(lowered, static_cast<size_t>(options.nbest))
                                                               : std::vector<std::vector<int64_t>>{likely(trellis, backward)};
            for (const auto& labels : ways) {
                Hypothesis one = chained(trellis, backward, labels);
                for (const auto& each : options.penalties)
                    one.score -= each.second * static_cast<double>(std::count(labels.begin(), labels.end(), each.first));
                if (std::isfinite(one.log_prob)) found.back().push_back(std::move(one));
            }
        }
        return found;
    }

    Found score(const Batch& batch, const Targets& targets) const override {
        Found found;
        for (const Trellis& trellis : trellises(batch)) {
            const auto& target = *targets[found.size()];
            check_labels(target, trellis.places, trellis.labels);
            found.push_back({chained(trellis, trellis.backward(), {target.begin(), target.end() - 1})});
        }
        return found;
    }

  private:
    struct Way {
        double score;
        size_t before;  // its place among the ways to the place before
        int64_t label;
    };

    // The best sequences, best first: each label keeps the best ways to it.
    static std::vector<std::vector<int64_t>> best_ways(const Trellis& trellis, size_t count) {
        const auto better = [](const Way& one, const Way& two) { return one.score > two.score; };
        std::vector<std::vector<Way>> every = {{{0.0, 0, 0}}};
        for (int64_t t = 0; t < trellis.places; ++t) {
            std::vector<Way> next;
            for (int64_t label = UNK + 1; label < trellis.labels; ++label) {
                std::vector<Way> own;
                for (size_t k = 0; k < every.back().size(); ++k)
                    own.push_back({every.back()[k].score + trellis.from(t, every.back()[k].label, label) +
                                       trellis.unary[t * trellis.labels + label],
                        k, label});
                std::stable_sort(own.begin(), own.end(), better);
                next.insert(next.end(), own.begin(), own.begin() + std::min(count, own.size()));
            }
            every.push_back(std::move(next));
        }
        std::vector<Way> last = every.back();
        for (Way& way : last) way.score += trellis.places ? trellis.end[way.label] : 0;
        std::vector<size_t> order(last.size());
        std::iota(order.begin(), order.end(), size_t(0));
        std::stable_sort(order.begin(), order.end(), [&](size_t one, size_t two) { return last[one].score > last[two].score; });
        std::vector<std::vector<int64_t>> found;
        for (size_t k = 0; k < std::min(count, order.size()); ++k) {
            std::vector<int64_t> labels(trellis.places);
            size_t at = order[k];
            for (int64_t t = trellis.places; t-- > 0; at = every[t + 1][at].before) labels[t] = every[t + 1][at].label;
            found.push_back(std::move(labels));
        }
        return found;
    }

    // The label of the highest posterior probability at each place.
    static std::vector<int64_t> likely(const Trellis& trellis, const std::vector<double>& backward) {
        const int64_t L = trellis.labels;
        std::vector<int64_t> found;
        std::vector<double> forward(L), next(L), sums(L);
        for (int64_t t = 0; t < trellis.places; ++t) {
            for (int64_t j = 0; j < L; ++j) {
                for (int64_t i = 0; i < L; ++i) sums[i] = forward[i] + trellis.from(t, i, j);
                next[j] = (t == 0 ? trellis.start[j] : Trellis::log_sum_of(sums)) + trellis.unary[t * L + j];
            }
            forward.swap(next);
            int64_t best = UNK + 1;
            for (int64_t j = best; j < L; ++j)
                if (forward[j] + backward[t * L + j] > forward[best] + backward[t * L + best]) best = j;
            found.push_back(best);
        }
        return found;
    }
};

class RandomField : public Chain {
  public:
    RandomField(Parts& parts, const Json& notes)
        : encoder_(read_encoder(parts, notes)), labels_(parts.matrix("labels", ANY, encoder_->sizes().width)) {
        const int64_t L = labels_->outputs;
        if (L <= UNK + 1) throw Refusal("labels has no label");
        parts.tensor("transition", {L, L});
        parts.tensor("ends", {2, L});
        transition_ = parts.floats("transition", {L, L});
        ends_ = parts.floats("ends", {2, L});
    }
    int64_t source_vocabulary() const override { return encoder_->sizes().vocabulary; }
    int64_t target_vocabulary() const override { return labels_->outputs; }
    int64_t most_positions() const override { return encoder_->most_positions(); }

    std::vector<Trellis> trellises(const Batch& batch) const override {
        Memory memory = (*encoder_)(batch);
        for (int64_t& length : memory.lengths) --length;
        const int64_t L = labels_->outputs;
        const std::vector<float> logits = of_real(*labels_, memory.read(), memory.lengths, memory.longest);
        std::vector<Trellis> found;
        for (int64_t b = 0; b < memory.sources(); ++b) {
            const float* own = logits.data() + b * memory.longest * L;
            found.push_back({memory.lengths[b], L, {own, own + memory.lengths[b] * L}, {transition_, transition_ + L * L},
                {ends_, ends_ + L}, {ends_ + L, ends_ + 2 * L}});
        }
        return found;
    }

  private:
    std::unique_ptr<Encoder> encoder_;
    const Matrix* labels_;
    const float *transition_, *ends_;
};

// Chains whose scores are added with weights.
class ChainFusion : public Chain {
  public:
    ChainFusion(Parts& parts, const Json& notes) : weights_(notes.reals_in("weights", 0, LARGEST_WEIGHT)) {
        for (const Json& own : notes.at("members").items) {
            own.choice("model", {"crf"});
            models_.push_back(
                parts.within(std::to_string(models_.size()), [&] { return std::make_unique<RandomField>(parts, own); }));
            if (models_.back()->target_vocabulary() != target_vocabulary() ||
                models_.back()->source_vocabulary() != source_vocabulary())
                throw Refusal("its members have vocabularies of different sizes");
        }
        if (models_.empty() || models_.size() != weights_.size()) throw Refusal("weights: one for each member was expected");
    }
    int64_t source_vocabulary() const override { return models_[0]->source_vocabulary(); }
    int64_t target_vocabulary() const override { return models_[0]->target_vocabulary(); }
    int64_t most_positions() const override {
        int64_t found = ANY_POSITION;
        for (const auto& each : models_) found = std::min(found, each->most_positions());
        return found;
    }

    std::vector<Trellis> trellises(const Batch& batch) const override {
        std::vector<Trellis> found;
        for (size_t m = 0; m < models_.size(); ++m) {
            const std::vector<Trellis> own = models_[m]->trellises(batch);
            if (found.empty()) found = own;
            for (size_t b = 0; b < own.size(); ++b)
                for (auto part : {&Trellis::unary, &Trellis::transition, &Trellis::start, &Trellis::end})
                    for (size_t i = 0; i < (own[b].*part).size(); ++i)
                        (found[b].*part)[i] = (m ? (found[b].*part)[i] : 0.0) + weights_[m] * (own[b].*part)[i];
        }
        return found;
    }

  private:
    std::vector<double> weights_;
    std::vector<std::unique_ptr<RandomField>> models_;
};

}  // namespace transduce

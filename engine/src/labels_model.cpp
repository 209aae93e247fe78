// Taggers and classifiers: one label for each token of a source, or one for the source, each without regard to the others.
// Search as in wings/labels/search.py.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "models.h"
#include "refusal.h"

namespace transduce {

// The log-probabilities [B, T, V] of the labels at each place, of which the first lengths[b] of a source are real.
struct Places {
    std::vector<int64_t> lengths;
    int64_t longest;
    std::vector<float> log_probs;
};

// The output of these labels, EOS at its end, which is no choice of the model. `choices` has its choices, if wanted.
static Hypothesis labelled(std::vector<int64_t> labels, std::vector<double> log_probs, Hypothesis choices = {}) {
    const double total = std::accumulate(log_probs.begin(), log_probs.end(), 0.0);
    labels.push_back(EOS);
    log_probs.push_back(0);
    return {
        std::move(labels), std::move(log_probs), total, total, std::move(choices.choices), std::move(choices.choice_log_probs)};
}

// The label with the highest score [V]; of equal ones the first.
template <class T>
static int64_t best_label(const T* scores, int64_t V) {
    return std::max_element(scores + UNK + 1, scores + V) - scores;
}

static void check_labels(const std::vector<int64_t>& target, int64_t places, int64_t vocabulary) {
    check_target(target, vocabulary);
    if (static_cast<int64_t>(target.size()) != places + 1)
        throw Refusal(std::to_string(target.size() - 1) + " labels for a source of " + std::to_string(places) + " places");
}

class Labeller : public Model {
  public:
    std::vector<Options::Kind> searches() const override { return {Options::LABELS}; }

    Found search(const Batch& batch, const Options& options) const override {
        const Places places = place(batch);
        Found found;
        for (size_t b = 0; b < places.lengths.size(); ++b) {
            const float* own = places.log_probs.data() + b * places.longest * target_vocabulary();
            found.push_back(best_labels(own, places.lengths[b], static_cast<size_t>(options.nbest)));
        }
        return found;
    }

    Found score(const Batch& batch, const Targets& targets) const override {
        const Places places = place(batch);
        const int64_t V = target_vocabulary();
        Found found;
        for (size_t b = 0; b < targets.size(); ++b) {
            check_labels(*targets[b], places.lengths[b], V);
            std::vector<double> log_probs;
            Hypothesis choices = {};
            for (int64_t t = 0; t < places.lengths[b]; ++t) {
                const float* own = places.log_probs.data() + (b * places.longest + t) * V;
                log_probs.push_back(own[(*targets[b])[t]]);
                const int64_t best = best_label(own, V);
                choices.choose(best, own[best]);
            }
            found.push_back({labelled({targets[b]->begin(), targets[b]->end() - 1}, std::move(log_probs), std::move(choices))});
        }
        return found;
    }

    virtual Places place(const Batch& batch) const = 0;

  protected:
    Places probable(std::vector<int64_t> lengths, int64_t longest, std::vector<float> logits) const {
        transduce_log_softmax(logits.data(), static_cast<int64_t>(lengths.size()) * longest, target_vocabulary(), 0);
        return {std::move(lengths), longest, std::move(logits)};
    }

  private:
    struct Way {
        double score;
        size_t before;  // the way that it continues
        int64_t label;
    };

    // The best outputs for one source: the n-th best needs only the n best labels of each place.
    std::vector<Hypothesis> best_labels(const float* log_probs, int64_t length, size_t count) const {
        const int64_t V = target_vocabulary(), few = std::min<int64_t>(static_cast<int64_t>(count), V - UNK - 1);
        std::vector<std::vector<Way>> ways = {{{0.0, 0, 0}}};
        std::vector<int64_t> order(V - UNK - 1);
        for (int64_t t = 0; t < length; ++t) {
            const float* own = log_probs + t * V;
            std::iota(order.begin(), order.end(), UNK + 1);  // a label is never a special token
            std::stable_sort(order.begin(), order.end(), [&](int64_t one, int64_t two) { return own[one] > own[two]; });
            std::vector<Way> next;
            for (size_t k = 0; k < ways.back().size(); ++k)
                for (int64_t i = 0; i < few; ++i)
                    next.push_back({ways.back()[k].score + static_cast<double>(own[order[i]]), k, order[i]});
            std::stable_sort(next.begin(), next.end(), [](const Way& one, const Way& two) { return one.score > two.score; });
            if (next.size() > count) next.resize(count);
            ways.push_back(std::move(next));
        }
        std::vector<Hypothesis> found;
        for (size_t k = 0; k < ways.back().size(); ++k) {
            if (!std::isfinite(ways.back()[k].score)) continue;
            std::vector<int64_t> labels(length);
            std::vector<double> each(length);
            size_t at = k;
            for (int64_t t = length; t-- > 0;) {
                labels[t] = ways[t + 1][at].label;
                each[t] = log_probs[t * V + labels[t]];
                at = ways[t + 1][at].before;
            }
            found.push_back(labelled(std::move(labels), std::move(each)));
        }
        return found;
    }
};

// A labeller with an encoder, and a matrix of labels.
class EncodedLabeller : public Labeller {
  public:
    EncodedLabeller(Parts& parts, const Json& notes) : encoder_(read_encoder(parts, notes)) {}
    int64_t source_vocabulary() const override { return encoder_->sizes().vocabulary; }
    int64_t target_vocabulary() const override { return labels_->outputs; }
    int64_t most_positions() const override { return encoder_->most_positions(); }
    bool reads_signals() const override { return encoder_->reads_signals(); }

  protected:
    std::unique_ptr<Encoder> encoder_;
    const Matrix* labels_ = nullptr;
};

// One label for each token, without EOS.
class Tagger : public EncodedLabeller {
  public:
    Tagger(Parts& parts, const Json& notes) : EncodedLabeller(parts, notes) {
        if (reads_signals()) throw Refusal("a tagger reads tokens, and its encoder reads signals");
        labels_ = parts.matrix("labels", ANY, encoder_->sizes().width);
        if (labels_->outputs <= UNK + 1) throw Refusal("labels has no label");
    }

    Places place(const Batch& batch) const override {
        Memory memory = (*encoder_)(batch);
        for (int64_t& length : memory.lengths) --length;
        std::vector<float> logits = of_real(*labels_, memory.read(), memory.lengths, memory.longest);
        return probable(std::move(memory.lengths), memory.longest, std::move(logits));
    }
};

class Classifier : public EncodedLabeller {
  public:
    Classifier(Parts& parts, const Json& notes) : EncodedLabeller(parts, notes), pooling_(read_pooling(notes)) {
        labels_ = parts.matrix("labels", ANY, pooled_width(pooling_, encoder_->sizes()));
        if (labels_->outputs <= UNK + 1) throw Refusal("labels has no label");
    }

    Places place(const Batch& batch) const override {
        const Memory memory = (*encoder_)(batch);
        const int64_t B = memory.sources();
        const std::vector<float> pooled = pooled_by(pooling_, memory);
        std::vector<float> logits(B * target_vocabulary());
        check(transduce_multiply(labels_, pooled.data(), logits.data(), B, NONE));
        return probable(std::vector<int64_t>(B, 1), 1, std::move(logits));
    }

  private:
    Pooling pooling_;
};

static std::unique_ptr<Labeller> read_labeller(Parts& parts, const Json& notes) {
    if (notes.choice("model", {"classifier", "tagger"})) return std::make_unique<Tagger>(parts, notes);
    return std::make_unique<Classifier>(parts, notes);
}

// The mean of the probabilities of several taggers or classifiers (wings/labels/several.py).
class LabelEnsemble : public Labeller {
  public:
    LabelEnsemble(Parts& parts, const Json& notes) {
        const std::vector<Json>& members = notes.at("members").items;
        for (size_t m = 0; m < members.size(); ++m)
            models_.push_back(parts.within(std::to_string(m), [&] { return read_labeller(parts, members[m]); }));
        if (models_.empty()) throw Refusal("members is empty: one model or more was expected");
        for (const auto& each : models_)
            if (each->target_vocabulary() != target_vocabulary() || each->source_vocabulary() != source_vocabulary() ||
                each->reads_signals() != reads_signals())
                throw Refusal("its members have vocabularies of different sizes");
    }
    int64_t source_vocabulary() const override { return models_[0]->source_vocabulary(); }
    int64_t target_vocabulary() const override { return models_[0]->target_vocabulary(); }
    bool reads_signals() const override { return models_[0]->reads_signals(); }
    int64_t most_positions() const override {
        int64_t found = ANY_POSITION;
        for (const auto& each : models_) found = std::min(found, each->most_positions());
        return found;
    }

    Places place(const Batch& batch) const override {
        Places found = models_[0]->place(batch);
        std::vector<double> sums(found.log_probs.size());
        for (size_t m = 0; m < models_.size(); ++m) {
            const Places own = m ? models_[m]->place(batch) : found;
            if (own.lengths != found.lengths) throw Refusal("its members give labels to different places");
            for (size_t i = 0; i < sums.size(); ++i) sums[i] += std::exp(static_cast<double>(own.log_probs[i]));
        }
        for (size_t i = 0; i < sums.size(); ++i)
            found.log_probs[i] = static_cast<float>(std::log(sums[i] / static_cast<double>(models_.size())));
        return found;
    }

  private:
    std::vector<std::unique_ptr<Labeller>> models_;
};

}  // namespace transduce

// Several models as one, mixed at each token (models/mixtures.py).

#include <cmath>
#include <limits>
#include <numeric>

#include "models.h"
#include "refusal.h"

namespace transduce {

const double LARGEST_WEIGHT = 1e6;

class MixtureState : public State {
  public:
    MixtureState(std::vector<std::unique_ptr<State>> states, std::vector<int64_t> widths, int64_t sources)
        : states_(std::move(states)), widths_(std::move(widths)), sources_(sources) {}

    // The features are those [N, W] of the first model, then those of the next, and so on.
    void step(const int64_t* tokens, float* features) override {
        for (size_t m = 0; m < states_.size(); ++m) {
            states_[m]->step(tokens, features);
            features += sources_ * each_ * widths_[m];
        }
    }
    void spread(int64_t hypotheses) override {
        each_ = hypotheses;
        for (auto& state : states_) state->spread(hypotheses);
    }
    void follow(const std::vector<int64_t>& rows) override {
        for (auto& state : states_) state->follow(rows);
    }
    void keep(const std::vector<int64_t>& sources) override {
        sources_ = static_cast<int64_t>(sources.size());
        for (auto& state : states_) state->keep(sources);
    }
    void join(State& state) override {
        auto& other = static_cast<MixtureState&>(state);
        sources_ += other.sources_;
        for (size_t m = 0; m < states_.size(); ++m) states_[m]->join(*other.states_[m]);
    }

  private:
    std::vector<std::unique_ptr<State>> states_;
    std::vector<int64_t> widths_;
    int64_t sources_, each_ = 1;
};

class Mixture : public Autoregressive {
  public:
    Mixture(std::vector<std::unique_ptr<Autoregressive>> models) : models_(std::move(models)) {
        if (models_.empty()) throw Refusal("members is empty: one model or more was expected");
        for (const auto& each : models_) {
            if (each->target_vocabulary() != target_vocabulary() || each->source_vocabulary() != source_vocabulary())
                throw Refusal("its members have vocabularies of different sizes");
            widths_.push_back(each->width());
        }
    }
    int64_t source_vocabulary() const override { return models_[0]->source_vocabulary(); }
    int64_t target_vocabulary() const override { return models_[0]->target_vocabulary(); }
    int64_t most_positions() const override {
        int64_t found = ANY_POSITION;
        for (const auto& each : models_) found = std::min(found, each->most_positions());
        return found;
    }
    int64_t width() const override { return std::accumulate(widths_.begin(), widths_.end(), int64_t(0)); }

    std::unique_ptr<State> start(const Batch& batch, int64_t hypotheses) const override {
        std::vector<std::unique_ptr<State>> states;
        for (const auto& each : models_) states.push_back(each->start(batch, hypotheses));
        return together(std::move(states), batch.sources());
    }

    void read_out(const float* features, int64_t rows, float* logits) const override {
        const int64_t V = target_vocabulary();
        std::vector<float> own(rows * V);
        bool first = true;
        for (size_t m = 0; m < models_.size(); ++m) {
            if (reads(m)) {
                models_[m]->read_out(features, rows, own.data());
                transduce_log_softmax(own.data(), rows, V, 0);
                mix(m, first, own, logits);
                first = false;
            }
            features += rows * widths_[m];
        }
        complete(rows, logits);
    }

  protected:
    std::vector<std::unique_ptr<Autoregressive>> models_;

    virtual bool reads(size_t) const { return true; }

    // Adds the log-probabilities of model m to `mixed`, which has nothing before the first.
    virtual void mix(size_t m, bool first, const std::vector<float>& log_probs, float* mixed) const = 0;
    virtual void complete(int64_t, float*) const {}

    std::unique_ptr<State> together(std::vector<std::unique_ptr<State>> states, int64_t sources) const {
        return std::make_unique<MixtureState>(std::move(states), widths_, sources);
    }

  private:
    std::vector<int64_t> widths_;
};

// The mean of the probabilities. Its logits are the logarithms of their sum, which the searches normalise.
class Ensemble : public Mixture {
  public:
    using Mixture::Mixture;

  protected:
    void mix(size_t, bool first, const std::vector<float>& log_probs, float* mixed) const override {
        for (size_t i = 0; i < log_probs.size(); ++i) {
            const float one = first ? -std::numeric_limits<float>::infinity() : mixed[i], two = log_probs[i];
            const float larger = std::max(one, two), smaller = std::min(one, two);
            mixed[i] = std::isinf(smaller) ? larger : larger + std::log1p(std::exp(smaller - larger));
        }
    }
};

// The weighted sum of the log-probabilities. Without `renormalise`, PAD gets what the others leave.
class Fusion : public Mixture {
  public:
    Fusion(std::vector<std::unique_ptr<Autoregressive>> models, std::vector<double> weights, bool renormalise)
        : Mixture(std::move(models)), weights_(std::move(weights)), renormalise_(renormalise) {
        const double sum = std::accumulate(weights_.begin(), weights_.end(), 0.0);
        if (weights_.size() != models_.size() || !(sum > 0))
            throw Refusal("weights: one for each model was expected, not all of them 0");
    }

  protected:
    bool reads(size_t m) const override { return weights_[m] > 0; }

    void mix(size_t m, bool first, const std::vector<float>& log_probs, float* mixed) const override {
        const float weight = static_cast<float>(weights_[m]);
        for (size_t i = 0; i < log_probs.size(); ++i) mixed[i] = weight * log_probs[i] + (first ? 0.0f : mixed[i]);
    }

    void complete(int64_t rows, float* mixed) const override {
        const int64_t V = target_vocabulary();
        for (int64_t n = 0; n < rows && !renormalise_; ++n, mixed += V) {
            double lost = 1;
            for (int64_t v = PAD + 1; v < V; ++v) lost -= std::exp(static_cast<double>(mixed[v]));
            mixed[PAD] = std::log(std::max(static_cast<float>(lost), std::numeric_limits<float>::min()));
        }
    }

  private:
    std::vector<double> weights_;
    bool renormalise_;
};

static std::vector<std::unique_ptr<Autoregressive>> read_members(Parts& parts, const Json& notes) {
    std::vector<std::unique_ptr<Autoregressive>> found;
    for (const Json& own : notes.at("members").items)
        found.push_back(parts.within(std::to_string(found.size()), [&] { return read_autoregressive(parts, own); }));
    return found;
}

static std::unique_ptr<Autoregressive> read_ensemble(Parts& parts, const Json& notes) {
    return std::make_unique<Ensemble>(read_members(parts, notes));
}

static std::unique_ptr<Autoregressive> read_fusion(Parts& parts, const Json& notes) {
    return std::make_unique<Fusion>(
        read_members(parts, notes), notes.reals_in("weights", 0, LARGEST_WEIGHT), notes.truth_of("renormalise"));
}

// A trained model beside a counted one; the trained one alone if nothing was counted.
static std::unique_ptr<Autoregressive> read_with_counts(Parts& parts, const Json& notes) {
    std::vector<std::unique_ptr<Autoregressive>> members = read_members(parts, notes);
    if (members.size() != 1) throw Refusal("members = " + notes.at("members").shown() + ": one model was expected");
    if (notes.find("counted") == nullptr) return std::move(members[0]);
    const double weight = notes.real_in("weight", 0, 1);
    members.push_back(read_joint_ngram(parts, notes));
    return std::make_unique<Fusion>(std::move(members), std::vector<double>{1 - weight, weight}, true);
}

}  // namespace transduce

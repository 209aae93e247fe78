// A whole model: what answers a batch of sources. Models that write token by token are searched by search.cpp; others
// have their own search.
#ifndef TRANSDUCE_MODELS_H
#define TRANSDUCE_MODELS_H

#include <cstdint>
#include <memory>
#include <vector>

#include "model.h"
#include "options.h"

namespace transduce {

struct Hypothesis {
    std::vector<int64_t> tokens;  // with EOS
    std::vector<double> log_probs;
    double log_prob, score;
    std::vector<int64_t> choices = {};  // of a given output: the model's first choice at each position where it has one
    std::vector<double> choice_log_probs = {};

    // The model's first choice at the next position.
    void choose(int64_t choice, double log_prob_of_choice) {
        choices.push_back(choice);
        choice_log_probs.push_back(log_prob_of_choice);
    }
};

typedef std::vector<std::vector<Hypothesis>> Found;  // for each source, the best first
typedef std::vector<const std::vector<int64_t>*> Targets;

class Search;  // search.h

class Model {
  public:
    virtual ~Model() = default;
    virtual int64_t source_vocabulary() const = 0;
    virtual int64_t target_vocabulary() const = 0;
    virtual int64_t most_positions() const { return ANY_POSITION; }
    virtual bool reads_signals() const { return false; }

    // The kinds of search that fit the model.
    virtual std::vector<Options::Kind> searches() const = 0;

    virtual Found search(const Batch& batch, const Options& options) const = 0;

    // A search that sources enter and leave. Throws Refusal unless the model writes token by token.
    virtual std::unique_ptr<Search> begin(const Options& options) const;

    // The log-probabilities of given outputs, rows of ids that end with EOS, and the model's first choices: one output for
    // each source. Throws Refusal for ids that no output has.
    virtual Found score(const Batch& batch, const Targets& targets) const = 0;

    // Samples that go on with a prompt, each of at most `options.max_length` tokens: what follows the prompt
    // (wings/language/generation_search.py). Throws Refusal unless this is a language model.
    virtual std::vector<Hypothesis> generate(const std::vector<int64_t>& prompt, const Options& options) const;
};

// A model that writes token by token.
class Autoregressive : public Model {
  public:
    // A state of one row for each source. At most `hypotheses` rows will come of it.
    virtual std::unique_ptr<State> start(const Batch& batch, int64_t hypotheses) const = 0;

    // The width W of the features of a step, and the logits [N, V] of features [N, W].
    virtual int64_t width() const = 0;
    virtual void read_out(const float* features, int64_t rows, float* logits) const = 0;
    virtual const Matrix* readout() const { return nullptr; }  // as of a decoder

    std::vector<Options::Kind> searches() const override { return {Options::GREEDY, Options::BEAM, Options::SAMPLING}; }
    Found search(const Batch& batch, const Options& options) const override;
    std::unique_ptr<Search> begin(const Options& options) const override;
    Found score(const Batch& batch, const Targets& targets) const override;
};

// The model that a description names. Each family adds its lines in families.cpp of this folder. The second function
// refuses models that do not write token by token.
std::unique_ptr<Model> read_model(Parts& parts, const Json& notes);
std::unique_ptr<Autoregressive> read_autoregressive(Parts& parts, const Json& notes);

// The ids of an output that a model may have written, EOS at its end. Throws Refusal for others.
void check_target(const std::vector<int64_t>& target, int64_t vocabulary);

}  // namespace transduce

#endif

// Models that write all tokens at once (models/instant.py): a classifier of the length, and a Transformer whose positions do
// not wait for each other. The search over lengths is that of search/length_beam.py.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "models.h"
#include "refusal.h"
#include "transformer.h"

namespace transduce {

class Instant : public Model {
  public:
    Instant(Parts& parts, const Json& notes) : encoder_(read_encoder(parts, notes)), stack_(read_decoder_stack(parts, notes)) {
        const int64_t W = stack_.embedding.width;
        read_ = parts.matrix("memory", static_cast<int64_t>(stack_.count) * 2 * W, encoder_->sizes().width);
        readout_ = parts.matrix("readout", ANY, W);
        width_ = notes.number_in("length_width", 2, LARGEST_NUMBER);
        if (width_ % 2) throw Refusal("length_width = " + std::to_string(width_) + ": an even number was expected");
        length_ = parts.matrix("length", stack_.embedding.vocabulary + 1, encoder_->sizes().summary + width_);
        if (readout_->outputs <= UNK + 1) throw Refusal("readout has no token");
    }
    int64_t source_vocabulary() const override { return encoder_->sizes().vocabulary; }
    int64_t target_vocabulary() const override { return readout_->outputs; }
    int64_t most_positions() const override { return encoder_->most_positions(); }
    std::vector<Options::Kind> searches() const override { return {Options::LENGTH_BEAM}; }

    Found search(const Batch& batch, const Options& options) const override {
        const Memory memory = (*encoder_)(batch);
        const std::vector<float> log_probs = length_log_probs(memory);
        const int64_t B = batch.sources(), L = length_->outputs, K = std::min(options.size, L);
        std::vector<int64_t> order(L), lengths;
        for (int64_t b = 0; b < B; ++b) {
            const float* own = log_probs.data() + b * L;
            std::iota(order.begin(), order.end(), int64_t(0));
            std::stable_sort(order.begin(), order.end(), [&](int64_t one, int64_t two) { return own[one] > own[two]; });
            lengths.insert(lengths.end(), order.begin(), order.begin() + K);
        }
        const std::vector<Hypothesis> written = write(memory, log_probs, lengths, nullptr);
        Found found(B);
        for (int64_t n = 0; n < B * K; ++n) {
            Hypothesis one = written[n];
            one.score = options.ranking(one.log_prob, static_cast<int64_t>(one.tokens.size()), batch.lengths[n / K]);
            if (std::isfinite(one.score)) found[n / K].push_back(std::move(one));
        }
        for (auto& own : found) {
            std::stable_sort(
                own.begin(), own.end(), [](const Hypothesis& one, const Hypothesis& two) { return one.score > two.score; });
            if (static_cast<int64_t>(own.size()) > options.nbest) own.resize(options.nbest);
        }
        return found;
    }

    Found score(const Batch& batch, const Targets& targets) const override {
        std::vector<int64_t> lengths;
        for (const auto* target : targets) {
            check_target(*target, target_vocabulary());
            lengths.push_back(static_cast<int64_t>(target->size()) - 1);
            if (lengths.back() >= length_->outputs)
                throw Refusal("an output of " + std::to_string(lengths.back()) + " tokens: this model writes at most " +
                              std::to_string(length_->outputs - 1));
            if (std::find(target->begin(), target->end() - 1, EOS) != target->end() - 1)
                throw Refusal("id 2 cannot stand within an output");
        }
        const Memory memory = (*encoder_)(batch);
        Found found;
        for (Hypothesis& each : write(memory, length_log_probs(memory), lengths, &targets)) found.push_back({std::move(each)});
        return found;
    }

  private:
    std::unique_ptr<Encoder> encoder_;
    TransformerStack stack_;
    const Matrix *read_, *readout_, *length_;
    int64_t width_;

    static TransformerStack read_decoder_stack(Parts& parts, const Json& notes) {
        const Json& own = notes.table("decoder");
        own.choice("type", {"transformer"});
        return read_stack(parts, "decoder", own, true);
    }

    // The log-probabilities [B, L] of the lengths 0 to L - 1. The length of a source counts as a sinusoid.
    std::vector<float> length_log_probs(const Memory& memory) const {
        const int64_t B = memory.sources(), L = length_->outputs, F = encoder_->sizes().summary;
        std::vector<float> read(B * (F + width_)), found(B * L);
        for (int64_t b = 0; b < B; ++b) {
            float* own = read.data() + b * (F + width_);
            std::copy(memory.summary.begin() + b * F, memory.summary.begin() + (b + 1) * F, own);
            for (int64_t i = 0; i < width_; i += 2) {
                const double angle = static_cast<double>(memory.lengths[b]) /
                                     std::pow(10000.0, static_cast<double>(i) / static_cast<double>(width_));
                own[F + i] = static_cast<float>(std::sin(angle));
                own[F + i + 1] = static_cast<float>(std::cos(angle));
            }
        }
        check(transduce_multiply(length_, read.data(), found.data(), B, NONE));
        transduce_log_softmax(found.data(), B, L, 0);
        return found;
    }

    // The log-probability of the most probable length. Sets `choice` to PAD if it is another one than `length`.
    double best_length(const float* log_probs, int64_t length, int64_t& choice) const {
        const float* best = std::max_element(log_probs, log_probs + length_->outputs);
        if (best - log_probs != length) choice = PAD;
        return *best;
    }

    // Outputs of these lengths [N], the same number for each source: the most probable tokens, or those of `targets`. The
    // log-probability of EOS is that of the length.
    std::vector<Hypothesis> write(const Memory& memory, const std::vector<float>& log_probs,
        const std::vector<int64_t>& lengths, const Targets* targets) const {
        const int64_t B = memory.sources(), N = static_cast<int64_t>(lengths.size()), V = target_vocabulary(),
                      W = stack_.embedding.width;
        const int64_t T = std::max<int64_t>(1, *std::max_element(lengths.begin(), lengths.end()));
        std::vector<int64_t> ids(N * T);  // the places from the end
        for (int64_t n = 0; n < N; ++n)
            for (int64_t t = 0; t < lengths[n]; ++t) ids[n * T + t] = lengths[n] - 1 - t;
        const std::vector<std::vector<float>> read = keys_and_values(*read_, memory, W);
        std::vector<TransformerSource> sources;
        for (int64_t b = 0; b < B; ++b) sources.push_back({memory.lengths[b], read[b].data(), nullptr, 0});
        const TransformerMemory places = {B, memory.longest, sources.data()};
        std::vector<float> features(N * T * W);
        check(transduce_transformer_encode(&stack_, ids.data(), lengths.data(), N, T, &places, features.data()));
        const std::vector<float> logits = of_real(*readout_, features.data(), lengths, T);
        std::vector<Hypothesis> found;
        for (int64_t n = 0; n < N; ++n) {
            Hypothesis own = {std::vector<int64_t>(lengths[n]), std::vector<double>(lengths[n]), 0, 0};
            const int64_t* forced = targets == nullptr ? nullptr : (*targets)[n]->data();
            transduce_highest(logits.data() + n * T * V, forced, lengths[n], V, forced == nullptr ? UNK + 1 : EOS + 1,
                own.tokens.data(), own.log_probs.data());
            for (int64_t t = 0; forced != nullptr && t <= lengths[n]; ++t) {
                int64_t choice = EOS;
                double log_prob;
                if (t < lengths[n])
                    transduce_highest(logits.data() + (n * T + t) * V, nullptr, 1, V, UNK + 1, &choice, &log_prob);
                else
                    log_prob = best_length(log_probs.data() + n / (N / B) * length_->outputs, lengths[n], choice);
                own.choose(choice, log_prob);
            }
            own.tokens.push_back(EOS);
            own.log_probs.push_back(log_probs[n / (N / B) * length_->outputs + lengths[n]]);
            own.log_prob = own.score = std::accumulate(own.log_probs.begin(), own.log_probs.end(), 0.0);
            found.push_back(std::move(own));
        }
        return found;
    }
};

}  // namespace transduce

// Connectionist temporal classification: symbols and blanks in frames, alone with searches of its own, and token by token
// as part of a mixture. alignments.h and prefix_sums.h have the sums; the laws are those of wings/ctc/search.

#include <cmath>
#include <limits>

#include "alignments.h"
#include "models.h"
#include "prefix_sums.h"
#include "refusal.h"

namespace transduce {

// The log-probabilities [B, S, V] of the symbols in each frame, of which the first lengths[b] of a source are real.
struct Frames {
    std::vector<int64_t> lengths;
    int64_t longest;
    std::vector<double> log_probs;

    // Minus infinity for the symbols that no output has.
    Frames writable(int64_t symbols, bool unknown) const {
        Frames found = *this;
        for (size_t frame = 0; frame < found.log_probs.size(); frame += symbols)
            for (int64_t v = BOS; v <= (unknown ? EOS : UNK); ++v)
                found.log_probs[frame + v] = -std::numeric_limits<double>::infinity();
        return found;
    }

    // The frames of sources, one for each number.
    Frames of(const std::vector<int64_t>& sources, int64_t symbols) const {
        Frames found = *this;
        gather(found.log_probs, longest * symbols, sources);
        gather(found.lengths, 1, sources);
        return found;
    }
};

// The frames of an encoder's states: `stretch` for each.
class FrameReadout {
  public:
    FrameReadout(Parts& parts, const Json& notes, int64_t width) : stretch_(notes.number_in("stretch", 1, 1000)) {
        if (stretch_ > 1) split_ = parts.matrix("frames.split", stretch_ * width, width);
        symbols_ = parts.matrix("frames", ANY, width);
        if (symbols_->outputs <= UNK) throw Refusal("frames has no symbol");
    }
    int64_t symbols() const { return symbols_->outputs; }

    Frames operator()(const Memory& memory) const {
        Frames found = {memory.lengths, memory.longest * stretch_, {}};
        std::vector<float> states = memory.states;
        if (split_ != nullptr) states = of_real(*split_, states.data(), memory.lengths, memory.longest);
        for (int64_t& length : found.lengths) length *= stretch_;
        std::vector<float> log_probs = of_real(*symbols_, states.data(), found.lengths, found.longest);
        transduce_log_softmax(log_probs.data(), memory.sources() * found.longest, symbols(), 0);
        found.log_probs.assign(log_probs.begin(), log_probs.end());
        return found;
    }

  private:
    int64_t stretch_;
    const Matrix *split_ = nullptr, *symbols_;
};

class FrameModel : public Model {
  public:
    FrameModel(Parts& parts, const Json& notes)
        : encoder_(read_encoder(parts, notes)), readout_(parts, notes, encoder_->sizes().width) {}
    int64_t source_vocabulary() const override { return encoder_->sizes().vocabulary; }
    int64_t target_vocabulary() const override { return readout_.symbols(); }
    int64_t most_positions() const override { return encoder_->most_positions(); }
    bool reads_signals() const override { return encoder_->reads_signals(); }
    std::vector<Options::Kind> searches() const override { return {Options::BEST_PATH, Options::PREFIX_BEAM}; }

    Found search(const Batch& batch, const Options& options) const override {
        const Frames every = frames(batch), allowed = every.writable(target_vocabulary(), options.unknown);
        Found found(batch.sources());
        std::vector<int64_t> origin;
        std::vector<std::vector<int64_t>> outputs;
        std::vector<double> scores;
        if (options.kind == Options::BEST_PATH)
            follow_best_path(allowed, outputs, scores, origin);
        else
            find_prefixes(allowed, options, outputs, scores, origin);
        Targets targets;
        for (const auto& output : outputs) targets.push_back(&output);
        const std::vector<Hypothesis> scored = align(every.of(origin, target_vocabulary()), targets);
        for (size_t n = 0; n < scored.size(); ++n) {
            found[origin[n]].push_back(scored[n]);
            found[origin[n]].back().score = scores[n];
        }
        return found;
    }

    Found score(const Batch& batch, const Targets& targets) const override {
        for (const auto* target : targets) check_target(*target, target_vocabulary());
        Found found;
        for (const Hypothesis& each : align(frames(batch), targets)) found.push_back({each});
        return found;
    }

  private:
    std::unique_ptr<Encoder> encoder_;
    FrameReadout readout_;

    Frames frames(const Batch& batch) const { return readout_((*encoder_)(batch)); }

    // The output of the most probable alignment.
    void follow_best_path(const Frames& allowed, std::vector<std::vector<int64_t>>& outputs, std::vector<double>& scores,
        std::vector<int64_t>& origin) const {
        const int64_t V = target_vocabulary();
        for (size_t b = 0; b < allowed.lengths.size(); ++b) {
            std::vector<int64_t> output;
            double score = 0;
            int64_t last = PAD;  // the blank
            for (int64_t s = 0; s < allowed.lengths[b]; ++s) {
                const double* own = allowed.log_probs.data() + (b * allowed.longest + s) * V;
                const int64_t best = std::max_element(own, own + V) - own;
                score += own[best];
                if (best != last && best != PAD) output.push_back(best);
                last = best;
            }
            output.push_back(EOS);
            outputs.push_back(std::move(output));
            scores.push_back(score);
            origin.push_back(static_cast<int64_t>(b));
        }
    }

    void find_prefixes(const Frames& allowed, const Options& options, std::vector<std::vector<int64_t>>& outputs,
        std::vector<double>& scores, std::vector<int64_t>& origin) const {
        const int64_t B = static_cast<int64_t>(allowed.lengths.size()), S = allowed.longest, K = options.nbest;
        std::vector<int64_t> ids(B * K * S), lengths(B * K);
        std::vector<double> found(B * K);
        check(transduce_prefix_beam(allowed.log_probs.data(), allowed.lengths.data(), B, S, target_vocabulary(), EOS + 1,
            options.size, K, options.bonus, ids.data(), lengths.data(), found.data()));
        for (int64_t n = 0; n < B * K; ++n) {
            if (lengths[n] < 0) continue;
            outputs.emplace_back(ids.begin() + n * S, ids.begin() + n * S + lengths[n]);
            outputs.back().push_back(EOS);
            scores.push_back(found[n]);
            origin.push_back(n / K);
        }
    }

    // The outputs, one for each row of frames, over all their alignments. EOS has what the others leave of the total.
    std::vector<Hypothesis> align(const Frames& frames, const Targets& targets) const {
        std::vector<Hypothesis> found;
        if (targets.empty()) return found;
        const Batch of(targets);
        const size_t N = targets.size(), T = static_cast<size_t>(of.longest);
        std::vector<double> own(N * T), best(N * T), total(N);
        std::vector<int64_t> choice(N * T);
        check(transduce_align(frames.log_probs.data(), frames.lengths.data(), static_cast<int64_t>(N), frames.longest,
            target_vocabulary(), EOS + 1, EOS, of.ids.data(), of.lengths.data(), of.longest, own.data(), best.data(),
            choice.data(), total.data()));
        for (size_t n = 0; n < N; ++n) {
            std::vector<double> each(own.begin() + n * T, own.begin() + n * T + of.lengths[n]);
            each.back() = total[n];
            for (size_t t = 0; t + 1 < each.size() && std::isfinite(total[n]); ++t) each.back() -= each[t];
            Hypothesis one = {*targets[n], {}, total[n], total[n]};
            for (size_t t = 0; t < each.size(); ++t) {  // EOS has a difference of sums, which rounding would set apart
                const bool right = choice[n * T + t] == (*targets[n])[t] && std::isfinite(each[t]);
                one.choose(right || choice[n * T + t] != (*targets[n])[t] ? choice[n * T + t] : PAD,
                    right ? each[t] : best[n * T + t]);
            }
            one.log_probs = std::move(each);
            found.push_back(std::move(one));
        }
        return found;
    }
};

// ---------------------------------------------------------------- token by token

const double HARDLY = -1e5;  // the log-probability of an impossible token; finite, as in wings/ctc/prefixes.py

// The sums of each row's prefix. The features are the log-probabilities [N, V] of the next token.
class FrameState : public State {
  public:
    FrameState(Frames frames, int64_t symbols) : V(symbols), frames_(std::move(frames)), last_(frames_.lengths.size(), BLANK) {
        for (double log_prob : frames_.log_probs) probabilities_.push_back(std::exp(log_prob));
        prefixes_.resize(last_.size());
        for (size_t b = 0; b < last_.size(); ++b) prefixes_[b].start(log_probs(b), frames_.lengths[b], V);
    }

    void step(const int64_t* tokens, float* features) override {
        PrefixSums longer;
        Following following(V, EOS + 1, EOS);
        for (size_t n = 0; n < last_.size(); ++n, features += V) {
            const size_t b = n / rows_;
            const int64_t S = frames_.lengths[b];
            if (tokens[n] != BOS) {
                longer.extend(prefixes_[n], last_[n], tokens[n], log_probs(b), S, V);
                std::swap(prefixes_[n], longer);
                last_[n] = tokens[n];
            }
            following.read(prefixes_[n], last_[n], log_probs(b), probabilities_.data() + b * frames_.longest * V, S);
            for (int64_t v = 0; v < V; ++v)
                features[v] = static_cast<float>(following.can_follow(v) ? following.log_prob(v) : HARDLY);
        }
    }
    void spread(int64_t hypotheses) override {
        rows_ = hypotheses;
        move(repeated(static_cast<int64_t>(frames_.lengths.size()), hypotheses));
    }
    void follow(const std::vector<int64_t>& rows) override { move(rows); }
    void keep(const std::vector<int64_t>& sources) override {
        move(rows_of(sources, rows_));
        gather(probabilities_, frames_.longest * V, sources);
        frames_ = frames_.of(sources, V);
    }
    void join(State& state) override {
        auto& other = static_cast<FrameState&>(state);
        const int64_t before = frames_.longest * V, after = other.frames_.longest * V;
        frames_.longest = std::max(frames_.longest, other.frames_.longest);
        append(frames_.log_probs, before, other.frames_.log_probs, after, frames_.longest * V);
        append(probabilities_, before, other.probabilities_, after, frames_.longest * V);
        append(frames_.lengths, 1, other.frames_.lengths, 1, 1);
        append(last_, 1, other.last_, 1, 1);
        append(prefixes_, 1, other.prefixes_, 1, 1);
    }

  private:
    const int64_t V;
    Frames frames_;
    std::vector<double> probabilities_;  // [B, S, V]
    int64_t rows_ = 1;
    std::vector<int64_t> last_;
    std::vector<PrefixSums> prefixes_;

    const double* log_probs(size_t source) const { return frames_.log_probs.data() + source * frames_.longest * V; }

    void move(const std::vector<int64_t>& rows) {
        gather(last_, 1, rows);
        gather(prefixes_, 1, rows);
    }
};

class FrameWriter : public Decoder {
  public:
    FrameWriter(Parts& parts, const Json& notes, const Encoded& encoded) : frames_(parts, notes, encoded.width) {}
    int64_t vocabulary() const override { return frames_.symbols(); }
    int64_t width() const override { return vocabulary(); }
    void read_out(const float* features, int64_t rows, float* logits) const override {
        std::copy(features, features + rows * vocabulary(), logits);
    }
    std::unique_ptr<State> start(const Memory& memory, int64_t) const override {
        return std::make_unique<FrameState>(frames_(memory), vocabulary());
    }

  private:
    FrameReadout frames_;
};

}  // namespace transduce

// The families of models, encoders and decoders, by the names that a description gives them. A new family adds its lines here.

#include <algorithm>

#include "models.h"

namespace transduce {

template <class Part, class... Arguments>
using ReaderOf = std::unique_ptr<Part> (*)(Parts&, const Json&, Arguments...);

template <class Own, class Part, class... Arguments>
static std::unique_ptr<Part> made(Parts& parts, const Json& notes, Arguments... arguments) {
    return std::make_unique<Own>(parts, notes, arguments...);
}

static const std::vector<std::string> ENCODER_NAMES = {"convs2s", "multi-kernel", "perceptron", "recurrent", "transformer"},
                                      DECODER_NAMES = {"convs2s", "edits", "recurrent", "transformer"};
static const ReaderOf<Encoder> ENCODERS[] = {made<ConvolutionEncoder, Encoder>, made<MultiKernelEncoder, Encoder>,
    made<Perceptron, Encoder>, made<RecurrentReader, Encoder>, made<TransformerEncoder, Encoder>};
static const ReaderOf<Decoder, const Encoded&> DECODERS[] = {made<ConvolutionDecoder, Decoder, const Encoded&>,
    made<EditWriter, Decoder, const Encoded&>, made<RecurrentWriter, Decoder, const Encoded&>,
    made<TransformerDecoder, Decoder, const Encoded&>};

std::unique_ptr<Encoder> read_encoder(Parts& parts, const Json& notes) {
    const Json& own = notes.table("encoder");
    return ENCODERS[own.choice("type", ENCODER_NAMES)](parts, own);
}

std::unique_ptr<Decoder> read_decoder(Parts& parts, const Json& notes, const Encoded& encoded) {
    const Json& own = notes.table("decoder");
    return DECODERS[own.choice("type", DECODER_NAMES)](parts, own, encoded);
}

// ---------------------------------------------------------------- whole models

// An encoder, and a decoder that reads its memory.
class EncoderDecoder : public Autoregressive {
  public:
    EncoderDecoder(std::shared_ptr<const Encoder> encoder, std::unique_ptr<Decoder> decoder)
        : encoder_(std::move(encoder)), decoder_(std::move(decoder)) {}
    int64_t source_vocabulary() const override { return encoder_->sizes().vocabulary; }
    int64_t target_vocabulary() const override { return decoder_->vocabulary(); }
    int64_t most_positions() const override { return encoder_->most_positions(); }
    bool reads_signals() const override { return encoder_->reads_signals(); }
    int64_t width() const override { return decoder_->width(); }
    void read_out(const float* features, int64_t rows, float* logits) const override {
        decoder_->read_out(features, rows, logits);
    }
    const Matrix* readout() const override { return decoder_->readout(); }
    std::unique_ptr<State> start(const Batch& batch, int64_t hypotheses) const override {
        return read((*encoder_)(batch), hypotheses);
    }
    std::unique_ptr<State> read(const Memory& memory, int64_t hypotheses) const { return decoder_->start(memory, hypotheses); }

  private:
    std::shared_ptr<const Encoder> encoder_;
    std::unique_ptr<Decoder> decoder_;
};

static std::unique_ptr<Autoregressive> read_encoder_decoder(Parts& parts, const Json& notes) {
    std::shared_ptr<const Encoder> encoder = read_encoder(parts, notes);
    return std::make_unique<EncoderDecoder>(encoder, read_decoder(parts, notes, encoder->sizes()));
}

// CTC token by token, as part of a mixture.
static std::unique_ptr<Autoregressive> read_frames(Parts& parts, const Json& notes) {
    std::shared_ptr<const Encoder> encoder = read_encoder(parts, notes);
    return std::make_unique<EncoderDecoder>(encoder, std::make_unique<FrameWriter>(parts, notes, encoder->sizes()));
}

// A decoder and CTC over one encoder, whose log-probabilities are added with weights.
class JointFrames : public Fusion {
  public:
    JointFrames(std::shared_ptr<const Encoder> encoder, std::vector<std::unique_ptr<Autoregressive>> both, double weight)
        : Fusion(std::move(both), {1 - weight, weight}, false), encoder_(std::move(encoder)) {}
    std::unique_ptr<State> start(const Batch& batch, int64_t hypotheses) const override {
        const Memory memory = (*encoder_)(batch);
        std::vector<std::unique_ptr<State>> states;
        for (const auto& each : models_) states.push_back(static_cast<const EncoderDecoder&>(*each).read(memory, hypotheses));
        return together(std::move(states), batch.sources());
    }

  private:
    std::shared_ptr<const Encoder> encoder_;
};

static std::unique_ptr<Autoregressive> read_joint_frames(Parts& parts, const Json& notes) {
    std::shared_ptr<const Encoder> encoder = read_encoder(parts, notes);
    std::vector<std::unique_ptr<Autoregressive>> both;
    both.push_back(std::make_unique<EncoderDecoder>(encoder, read_decoder(parts, notes, encoder->sizes())));
    both.push_back(std::make_unique<EncoderDecoder>(encoder, std::make_unique<FrameWriter>(parts, notes, encoder->sizes())));
    return std::make_unique<JointFrames>(encoder, std::move(both), notes.real_in("weight", 0, 1));
}

// A decoder without a source: each source is EOS alone.
class LanguageModel : public Autoregressive {
  public:
    LanguageModel(Parts& parts, const Json& notes) : decoder_(read_decoder(parts, notes, NO_SOURCE)) {}
    int64_t source_vocabulary() const override { return UNK + 1; }
    int64_t target_vocabulary() const override { return decoder_->vocabulary(); }
    int64_t width() const override { return decoder_->width(); }
    void read_out(const float* features, int64_t rows, float* logits) const override {
        decoder_->read_out(features, rows, logits);
    }
    std::unique_ptr<State> start(const Batch& batch, int64_t hypotheses) const override {
        return decoder_->start({std::vector<int64_t>(batch.sources()), 0, 0, {}, {}, {}, {}}, hypotheses);
    }
    std::vector<Hypothesis> generate(const std::vector<int64_t>& prompt, const Options& options) const override {
        return go_on(*this, prompt, options);
    }

  private:
    std::unique_ptr<Decoder> decoder_;
};

static const std::vector<std::string> AUTOREGRESSIVE_NAMES = {
    "ctc", "encoder-decoder", "ensemble", "fusion", "joint-ctc", "joint-ngram", "language-model", "seeds", "with-counts"};
static const ReaderOf<Autoregressive> AUTOREGRESSIVE[] = {read_frames, read_encoder_decoder, read_ensemble, read_fusion,
    read_joint_frames, read_joint_ngram, made<LanguageModel, Autoregressive>, read_ensemble, read_with_counts};

std::unique_ptr<Autoregressive> read_autoregressive(Parts& parts, const Json& notes) {
    return AUTOREGRESSIVE[notes.choice("model", AUTOREGRESSIVE_NAMES)](parts, notes);
}

static const std::vector<std::string> OTHER_NAMES = {"chain-fusion", "classifier", "crf", "ctc", "instant",
    "labels-with-counts", "linear-classifier", "linear-tagger", "parallel-ensemble", "tagger"};
static const ReaderOf<Model> OTHERS[] = {made<ChainFusion, Model>, made<Classifier, Model>, made<RandomField, Model>,
    made<FrameModel, Model>, made<Instant, Model>, read_labels_with_counts, made<LinearClassifier, Model>,
    made<LinearTagger, Model>, made<LabelEnsemble, Model>, made<Tagger, Model>};

std::unique_ptr<Model> read_model(Parts& parts, const Json& notes) {
    const auto found = std::find(OTHER_NAMES.begin(), OTHER_NAMES.end(), notes.text_of("model"));
    if (found != OTHER_NAMES.end()) return OTHERS[found - OTHER_NAMES.begin()](parts, notes);
    return read_autoregressive(parts, notes);
}

}  // namespace transduce

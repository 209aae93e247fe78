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

static const std::vector<std::string> ENCODER_NAMES = {"convs2s", "perceptron", "recurrent", "transformer"},
                                      DECODER_NAMES = {"convs2s", "edits", "recurrent", "transformer"};
static const ReaderOf<Encoder> ENCODERS[] = {made<ConvolutionEncoder, Encoder>, made<Perceptron, Encoder>,
    made<RecurrentReader, Encoder>, made<TransformerEncoder, Encoder>};
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
    EncoderDecoder(Parts& parts, const Json& notes)
        : encoder_(read_encoder(parts, notes)), decoder_(read_decoder(parts, notes, encoder_->sizes())) {}
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
        return decoder_->start((*encoder_)(batch), hypotheses);
    }

  private:
    std::unique_ptr<Encoder> encoder_;
    std::unique_ptr<Decoder> decoder_;
};

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
    "encoder-decoder", "ensemble", "fusion", "joint-ngram", "language-model", "seeds", "with-counts"};
static const ReaderOf<Autoregressive> AUTOREGRESSIVE[] = {made<EncoderDecoder, Autoregressive>, read_ensemble, read_fusion,
    read_joint_ngram, made<LanguageModel, Autoregressive>, read_ensemble, read_with_counts};

std::unique_ptr<Autoregressive> read_autoregressive(Parts& parts, const Json& notes) {
    return AUTOREGRESSIVE[notes.choice("model", AUTOREGRESSIVE_NAMES)](parts, notes);
}

static const std::vector<std::string> OTHER_NAMES = {
    "chain-fusion", "classifier", "crf", "ctc", "instant", "parallel-ensemble", "tagger"};
static const ReaderOf<Model> OTHERS[] = {made<ChainFusion, Model>, made<Classifier, Model>, made<RandomField, Model>,
    made<FrameModel, Model>, made<Instant, Model>, made<LabelEnsemble, Model>, made<Tagger, Model>};

std::unique_ptr<Model> read_model(Parts& parts, const Json& notes) {
    const auto found = std::find(OTHER_NAMES.begin(), OTHER_NAMES.end(), notes.text_of("model"));
    if (found != OTHER_NAMES.end()) return OTHERS[found - OTHER_NAMES.begin()](parts, notes);
    return read_autoregressive(parts, notes);
}

}  // namespace transduce

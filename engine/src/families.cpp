// The families of encoders and decoders, by the names that a description gives them. A new family adds its lines here.

#include "model.h"

namespace transduce {

template <class Part, class... Arguments>
using ReaderOf = std::unique_ptr<Part> (*)(Parts&, const Json&, Arguments...);

template <class Own, class Part, class... Arguments>
static std::unique_ptr<Part> made(Parts& parts, const Json& notes, Arguments... arguments) {
    return std::make_unique<Own>(parts, notes, arguments...);
}

static const std::vector<std::string> ENCODER_NAMES = {"convs2s", "recurrent", "transformer"}, DECODER_NAMES = {"convs2s", "edits", "recurrent", "transformer"};
static const ReaderOf<Encoder> ENCODERS[] = {made<ConvolutionEncoder, Encoder>, made<RecurrentReader, Encoder>, made<TransformerEncoder, Encoder>};
static const ReaderOf<Decoder, const Encoded&> DECODERS[] = {
    made<ConvolutionDecoder, Decoder, const Encoded&>, made<EditWriter, Decoder, const Encoded&>, made<RecurrentWriter, Decoder, const Encoded&>, made<TransformerDecoder, Decoder, const Encoded&>};

std::unique_ptr<Encoder> read_encoder(Parts& parts, const Json& notes) {
    const Json& own = notes.table("encoder");
    return ENCODERS[own.choice("type", ENCODER_NAMES)](parts, own);
}

std::unique_ptr<Decoder> read_decoder(Parts& parts, const Json& notes, const Encoded& encoded) {
    const Json& own = notes.table("decoder");
    return DECODERS[own.choice("type", DECODER_NAMES)](parts, own, encoded);
}

}  // namespace transduce

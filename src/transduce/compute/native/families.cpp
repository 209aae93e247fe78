// All code of the library. A new family of models adds its file here, and its structures to `transduce_size_of`.

#include "wings/ctc/kernels/alignments.cpp"
#include "choice.cpp"
#include "wings/engines/native/kernels/convolution.cpp"
#include "wings/engines/native/kernels/edits.cpp"
#include "interface.cpp"
#include "matrix.cpp"
#include "wings/counted/readings/kernels/readings.cpp"
#include "wings/engines/native/kernels/recurrent.cpp"
#include "team.cpp"
#include "training.cpp"
#include "wings/engines/native/kernels/transformer.cpp"

#define SIZE_OF(name) \
    { #name, sizeof(name) }

int64_t transduce_size_of(const char* name) {
    static const struct {
        const char* name;
        size_t bytes;
    } sizes[] = {
        SIZE_OF(Norm), SIZE_OF(Embedding), SIZE_OF(Relative), SIZE_OF(TransformerLayer), SIZE_OF(TransformerStack),
        SIZE_OF(TransformerMemory), SIZE_OF(TransformerStep), SIZE_OF(RecurrentCell), SIZE_OF(RecurrentEncoder),
        SIZE_OF(RecurrentDecoder), SIZE_OF(RecurrentStep), SIZE_OF(ConvolutionLayer), SIZE_OF(ConvolutionStack),
        SIZE_OF(ConvolutionStep), SIZE_OF(EditsStep), SIZE_OF(JointNgrams), SIZE_OF(ReadingTables), SIZE_OF(ReadingStep),
        SIZE_OF(Dropped), SIZE_OF(Vectors), SIZE_OF(Attention), SIZE_OF(Numbers)};
    for (const auto& each : sizes)
        if (std::strcmp(each.name, name) == 0) return static_cast<int64_t>(each.bytes);
    return -1;
}

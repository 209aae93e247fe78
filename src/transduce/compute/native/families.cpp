// All code of the library that PyTorch's searches and trainings call. New code adds its file here, and its structures to
// `transduce_size_of`.

#include "wings/ctc/kernels/alignments.cpp"
#include "choice.cpp"
#include "interface.cpp"
#include "wings/counted/readings/kernels/readings.cpp"
#include "team.cpp"
#include "training.cpp"

#define SIZE_OF(name) {#name, sizeof(name)}

int64_t transduce_size_of(const char* name) {
    static const struct {
        const char* name;
        size_t bytes;
    } sizes[] = {SIZE_OF(JointNgrams), SIZE_OF(ReadingTables), SIZE_OF(ReadingStep), SIZE_OF(Dropped), SIZE_OF(Vectors),
        SIZE_OF(Attention), SIZE_OF(Numbers)};
    for (const auto& each : sizes)
        if (std::strcmp(each.name, name) == 0) return static_cast<int64_t>(each.bytes);
    return -1;
}

// The target of libFuzzer: bytes are opened as a file of the engine, and an opened file answers. `bash scripts/fuzz-engine`
// compiles and runs it.

#include <cstring>
#include <vector>

#include "engine.h"

namespace {

uint32_t crc32_of(const std::vector<uint8_t>& bytes, size_t count) {
    uint32_t sum = ~0u;
    for (size_t n = 0; n < count; ++n) {
        sum ^= bytes[n];
        for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ (0xEDB88320u & -(sum & 1));
    }
    return ~sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
    if (size < 12) return 0;
    std::vector<uint8_t> file(bytes, bytes + size);
    const uint32_t sum = crc32_of(file, size - 4);  // otherwise nearly every file would end at its checksum
    for (int n = 0; n < 4; ++n) file[size - 4 + n] = static_cast<uint8_t>(sum >> (8 * n));
    char message[300] = "";
    TransduceEngine* engine = transduce_engine_open(file.data(), file.size(), message, sizeof message);
    if (engine == nullptr) {
        if (message[0] == 0) __builtin_trap();  // a refusal without a reason
        return 0;
    }
    const char* text = "abcba";
    const int64_t ends[] = {3, 3, 5};
    const TransduceAnswers* answers = transduce_engine_answer(engine, text, ends, 3, {2, 2, 2}, message, sizeof message);
    if (answers != nullptr) transduce_engine_free(answers);
    // Forbidden and required phrases of one token, and a list, which go one without the other.
    const int64_t ids[] = {4, 5, 4, 2}, id_ends[] = {4}, listed[] = {0, 1, 2, 3, 4, 6}, listed_ends[] = {6},
                  phrase_ends[] = {17};
    const int64_t forbidden[] = {3, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2, 1, 0, 5, 2, 1};
    const int64_t required[] = {3, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2, 1, 0, 6, 2, 1};
    const TransduceWanted wanted[] = {
        {nullptr, nullptr, nullptr, nullptr, forbidden, phrase_ends, required, phrase_ends, nullptr},
        {nullptr, nullptr, listed, listed_ends, nullptr, nullptr, nullptr, nullptr, nullptr}};
    for (const TransduceWanted& each : wanted) {
        answers = transduce_engine_search_ids(engine, nullptr, 0, ids, id_ends, &each, 1, {3, 2, 1}, message, sizeof message);
        if (answers != nullptr) transduce_engine_free(answers);
    }
    static const uint8_t pixels[3 * 50] = {9, 200, 31};
    static const int16_t samples[2 * 900] = {300, -7, 20000};
    static const float steps[8 * 6] = {1, -1, 0.5f};
    const TransduceSignal signals[] = {{pixels, 0, 5, 10, 3, 0}, {samples, 1, 900, 1, 2, 8000}, {steps, 3, 8, 6, 1, 0}};
    for (const TransduceSignal& each : signals) {
        answers = transduce_engine_search_signals(engine, nullptr, 0, &each, nullptr, 1, {0, 0, 0}, message, sizeof message);
        if (answers != nullptr) transduce_engine_free(answers);
    }
    transduce_engine_close(engine);
    return 0;
}

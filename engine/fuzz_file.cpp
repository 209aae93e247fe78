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
    transduce_engine_close(engine);
    return 0;
}

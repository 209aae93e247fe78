// Reads the file of a model. file.h explains it.

#include "file.h"

#include <cstring>

#include "refusal.h"

namespace transduce {

const char* const CHECKSUM = "checksum";  // the last tensor: CRC-32 of all bytes before it
const int64_t LARGEST = int64_t(1) << 40;

// CRC-32 as zlib computes it, eight bytes at a time.
static uint32_t crc32(const uint8_t* bytes, size_t count) {
    static uint32_t table[8][256];
    static const bool made = [] {
        for (uint32_t n = 0; n < 256; ++n) {
            uint32_t c = n;
            for (int k = 0; k < 8; ++k) c = c & 1 ? 0xEDB88320u ^ c >> 1 : c >> 1;
            table[0][n] = c;
        }
        for (uint32_t n = 0; n < 256; ++n)
            for (int k = 1; k < 8; ++k) table[k][n] = table[0][table[k - 1][n] & 0xFF] ^ table[k - 1][n] >> 8;
        return true;
    }();
    (void)made;
    uint32_t c = ~0u;
    for (; count >= 8; count -= 8, bytes += 8) {
        uint32_t low, high;
        std::memcpy(&low, bytes, 4);
        std::memcpy(&high, bytes + 4, 4);
        low ^= c;
        c = table[7][low & 0xFF] ^ table[6][low >> 8 & 0xFF] ^ table[5][low >> 16 & 0xFF] ^ table[4][low >> 24] ^
            table[3][high & 0xFF] ^ table[2][high >> 8 & 0xFF] ^ table[1][high >> 16 & 0xFF] ^ table[0][high >> 24];
    }
    for (; count; --count, ++bytes) c = table[0][(c ^ *bytes) & 0xFF] ^ c >> 8;
    return ~c;
}

static uint64_t little_endian(const uint8_t* bytes, int count) {
    uint64_t found = 0;
    for (int i = count - 1; i >= 0; --i) found = found << 8 | bytes[i];
    return found;
}

static int64_t size_of(const std::string& type) {
    return type == "F32" ? 4 : type == "I8" || type == "U8" ? 1 : type == "U16" ? 2 : type == "I64" ? 8 : 0;
}

// The tensor that an entry of the header describes, in `room` bytes of numbers.
static Tensor tensor_of(const std::string& name, const Json& entry, const uint8_t* numbers, int64_t room) {
    Tensor found = {entry.text_of("dtype"), {}, nullptr, 1};
    const std::string named = name.substr(0, 60);
    const int64_t bytes = size_of(found.type);
    if (!bytes) throw Refusal("tensor " + named + " has the unknown type " + entry.at("dtype").shown());
    for (const Json& each : entry.at("shape").items) {
        Json one;
        one.entries.emplace_back("size", each);
        found.shape.push_back(one.number_in("size", 0, LARGEST));
        if (found.shape.back() > 0 && found.count > LARGEST / found.shape.back())
            throw Refusal("tensor " + named + " is too large");
        found.count *= found.shape.back();
    }
    const std::vector<Json>& ends = entry.at("data_offsets").items;
    if (ends.size() != 2) throw Refusal("tensor " + named + " has no place in the file");
    Json place;
    place.entries = {{"first", ends[0]}, {"last", ends[1]}};
    const int64_t first = place.number_in("first", 0, LARGEST), last = place.number_in("last", first, LARGEST);
    if (last > room) throw Refusal("it was cut off: tensor " + named + " ends beyond its end; copy it again");
    if (last - first != found.count * bytes) throw Refusal("tensor " + named + " has another size than its shape says");
    found.bytes = numbers + first;
    return found;
}

File::File(const uint8_t* bytes, size_t size) {
    if (size < 8) throw Refusal("it is no file of an engine: it has " + std::to_string(size) + " bytes");
    const uint64_t header = little_endian(bytes, 8);
    if (header > size - 8 || header < 2 || bytes[8] != '{') throw Refusal("it is no file of an engine, or was cut off");
    const Json described = Json::parse(reinterpret_cast<const char*>(bytes) + 8, header);
    const Json* metadata = described.find("__metadata__");
    if (metadata == nullptr || metadata->find("transduce-engine") == nullptr)
        throw Refusal("it is no file of an engine: write one with `transduce export RUN --to engine --out FILE`");
    for (const auto& entry : metadata->entries) notes[entry.first] = metadata->text_of(entry.first);
    if (notes["transduce-engine"] != std::to_string(FILE_VERSION))
        throw Refusal("it has version " + metadata->at("transduce-engine").shown() + ", and this engine reads '" +
                      std::to_string(FILE_VERSION) + "': export the run again, or update the engine");
    for (const auto& entry : described.entries)
        if (entry.first != "__metadata__")
            tensors[entry.first] =
                tensor_of(entry.first, entry.second, bytes + 8 + header, static_cast<int64_t>(size - 8 - header));
    const auto sum = tensors.find(CHECKSUM);
    if (sum == tensors.end() || sum->second.type != "U8" || sum->second.count != 4) throw Refusal("it has no checksum");
    const size_t before = sum->second.bytes - bytes;
    if (before + 4 != size) throw Refusal("its checksum is not at its end");
    if (little_endian(sum->second.bytes, 4) != crc32(bytes, before))
        throw Refusal("it is damaged: its checksum is another one; copy it again");
}

Json File::json(const std::string& name) const {
    const auto found = notes.find(name);
    if (found == notes.end()) throw Refusal("it has no " + name + ": another version of transduce made it");
    return Json::parse(found->second.data(), found->second.size());
}

}  // namespace transduce

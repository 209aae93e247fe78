// The file of a model, in the format of safetensors: the length of a header in 8 bytes, the header in JSON, and the
// numbers of all tensors. docs/engine.md lists what the header has.
#ifndef TRANSDUCE_FILE_H
#define TRANSDUCE_FILE_H

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "json.h"

namespace transduce {

const int32_t FILE_VERSION = 1;  // export/engine.py writes it

// A tensor: where its numbers stand in the file.
struct Tensor {
    std::string type;
    std::vector<int64_t> shape;
    const uint8_t* bytes;
    int64_t count;  // of its numbers
};

// A file in memory, which must stay while the object is used.
class File {
  public:
    // Throws Refusal for a file that is damaged, or not of this format.
    File(const uint8_t* bytes, size_t size);

    std::map<std::string, Tensor> tensors;
    std::map<std::string, std::string> notes;  // the texts of the header, by name

    // A text of the header as JSON.
    Json json(const std::string& name) const;
};

}  // namespace transduce

#endif

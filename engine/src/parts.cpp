// Checks the tensors of a file, and packs them. parts.h explains it.

#include "parts.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "refusal.h"

namespace transduce {

static std::string shown(const std::vector<int64_t>& shape) {
    std::string found;
    for (int64_t size : shape) found += (found.empty() ? "" : ", ") + (size == ANY ? std::string("any") : std::to_string(size));
    return "[" + found + "]";
}

static bool all_finite(const float* x, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
        if (!std::isfinite(x[i])) return false;
    return true;
}

// The numbers of a tensor at an address that suits them.
static std::vector<float> numbers(const Tensor& tensor) {
    std::vector<float> found(static_cast<size_t>(tensor.count));
    std::memcpy(found.data(), tensor.bytes, found.size() * sizeof(float));
    return found;
}

const Tensor& Parts::tensor(const std::string& name, const std::vector<int64_t>& shape, const std::string& type) const {
    const auto found = file_.tensors.find(within_ + name);
    if (found == file_.tensors.end()) throw Refusal("it has no " + name + ": another version of transduce made it");
    const Tensor& tensor = found->second;
    bool fits = tensor.shape.size() == shape.size() && tensor.type == type;
    for (size_t i = 0; fits && i < shape.size(); ++i)
        fits = shape[i] == ANY ? 1 <= tensor.shape[i] && tensor.shape[i] <= LARGEST_NUMBER : tensor.shape[i] == shape[i];
    if (!fits)
        throw Refusal(name + " has shape " + shown(tensor.shape) + " and type " + tensor.type + ": " + shown(shape) + " and " +
                      type + " were expected");
    return tensor;
}

const float* Parts::floats(const std::string& name, const std::vector<int64_t>& shape) {
    if (!has(name)) return nullptr;
    const Tensor& found = tensor(name, shape);
    const auto before = tables_.find(within_ + name);
    if (before != tables_.end()) return before->second;
    std::vector<float> copy = numbers(found);
    if (!all_finite(copy.data(), found.count)) throw Refusal(name + " has numbers that are not finite");
    return tables_[within_ + name] = array(std::move(copy));
}

std::vector<int64_t> Parts::whole_numbers(const std::string& name, const std::vector<int64_t>& shape) const {
    const auto found = file_.tensors.find(within_ + name);
    if (found != file_.tensors.end() && found->second.count == 0) return {};
    const Tensor& list = tensor(name, shape, "I64");
    std::vector<int64_t> numbers(static_cast<size_t>(list.count));
    std::memcpy(numbers.data(), list.bytes, numbers.size() * sizeof(int64_t));
    return numbers;
}

std::vector<uint16_t> Parts::small_numbers(const std::string& name, int64_t count) const {
    const Tensor& list = tensor(name, {count}, "U16");
    std::vector<uint16_t> found(static_cast<size_t>(list.count));
    for (size_t i = 0; i < found.size(); ++i) found[i] = static_cast<uint16_t>(list.bytes[2 * i] | list.bytes[2 * i + 1] << 8);
    return found;
}

std::vector<float> Parts::likelihoods(const std::string& name, int64_t count) const {
    const bool coded = has(name + ".values");
    std::vector<float> found = numbers(coded ? tensor(name + ".values", {256}) : tensor(name, {count}));
    for (float each : found)
        if (!(each < std::numeric_limits<float>::infinity()))
            throw Refusal(name + " has numbers that are no log-probabilities");
    if (!coded) return found;
    const Tensor& codes = tensor(name, {count}, "U8");
    std::vector<float> every(static_cast<size_t>(count));
    for (size_t i = 0; i < every.size(); ++i) every[i] = found[codes.bytes[i]];
    return every;
}

const Matrix* Parts::matrix(const std::string& name, int64_t outputs, int64_t inputs) {
    const bool integers = has(name + ".scale");
    const Tensor& weight = tensor(name + ".weight", {outputs, inputs}, integers ? "I8" : "F32");
    outputs = weight.shape[0];
    inputs = weight.shape[1];
    std::vector<float> bias, scale;
    if (has(name + ".bias")) bias = numbers(tensor(name + ".bias", {outputs}));
    if (integers) scale = numbers(tensor(name + ".scale", {outputs}));
    if (!all_finite(bias.data(), bias.size()) || !all_finite(scale.data(), scale.size()))
        throw Refusal(name + " has numbers that are not finite");
    const auto packed =
        std::make_shared<Matrix>(static_cast<int>(outputs), static_cast<int>(inputs), bias.empty() ? nullptr : bias.data());
    if (integers) {
        packed->pack(reinterpret_cast<const int8_t*>(weight.bytes), scale.data());
    } else {
        const std::vector<float> copy = numbers(weight);
        if (!all_finite(copy.data(), weight.count)) throw Refusal(name + " has numbers that are not finite");
        packed->pack(copy.data());
    }
    kept_.push_back(packed);
    return packed.get();
}

Norm Parts::norm(const std::string& name, int64_t width) {
    tensor(name + ".weight", {width});
    return {floats(name + ".weight", {width}), floats(name + ".bias", {width})};
}

Embedding Parts::embedding(const Json& notes) {
    const std::string& name = notes.text_of("embedding");
    const Tensor& vectors = tensor(name, {ANY, ANY});
    const int64_t vocabulary = vectors.shape[0], width = vectors.shape[1];
    Embedding found = {static_cast<int32_t>(width), static_cast<int32_t>(vocabulary), ANY_POSITION, 1.0f, nullptr, nullptr};
    if (notes.find("positions") != nullptr) {
        const std::string& positions = notes.text_of("positions");
        found.most_positions = static_cast<int32_t>(tensor(positions, {ANY, width}).shape[0]);
        found.positions = floats(positions, {ANY, width});
    }
    if (notes.find("most_positions") != nullptr)
        found.most_positions =
            std::min(found.most_positions, static_cast<int32_t>(notes.number_in("most_positions", 1, LARGEST_NUMBER)));
    found.scale = static_cast<float>(notes.real_in("embedding_scale", -1e30, 1e30));
    found.vectors = floats(name, {ANY, width});
    return found;
}

}  // namespace transduce

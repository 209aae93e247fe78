// Convolutions with several kernels side by side (layers/encoders/multikernel.py).

#include <memory>

#include "layers.h"
#include "model.h"
#include "refusal.h"
#include "refusal.h"

namespace transduce {

const float MULTI_KERNEL_EPS = 1e-5f;  // of the norms

class MultiKernelEncoder : public Encoder {
  public:
    MultiKernelEncoder(Parts& parts, const Json& notes) : embedding_(parts.embedding(notes)) {
        const int64_t D = embedding_.width;
        for (double kernel : notes.reals_in("kernels", 1, 1001)) kernels_.push_back(static_cast<int64_t>(kernel));
        if (kernels_.empty()) throw Refusal("kernels is empty: one kernel or more was expected");
        for (int64_t l = 0, count = notes.number_in("layers", 1, 1000); l < count; ++l) {
            const std::string name = "encoder." + std::to_string(l);
            layers_.push_back({parts.norm(name + ".norm", D), {}, nullptr});
            for (size_t k = 0; k < kernels_.size(); ++k)
                layers_.back().kernels.push_back(parts.matrix(name + "." + std::to_string(k), D, kernels_[k] * D));
            layers_.back().merge = parts.matrix(name + ".merge", D, static_cast<int64_t>(kernels_.size()) * D);
        }
        norm_ = parts.norm("encoder.norm", D);
    }
    Encoded sizes() const override { return {embedding_.width, embedding_.width, embedding_.vocabulary}; }

  protected:
    // Each source is alone, so it does not depend on the padding of the others.
    Memory encode(const Batch& batch) const override {
        const int64_t B = batch.sources(), S = batch.longest, D = embedding_.width;
        check(find_unknown(embedding_, batch.ids.data(), batch.lengths.data(), B, S));
        Memory memory = {batch.lengths, S, D, std::vector<float>(B * S * D), {}, std::vector<float>(B * D), {}};
        for (int64_t b = 0; b < B; ++b)
            encode_one(batch.ids.data() + b * S, static_cast<int>(batch.lengths[b]), memory.states.data() + b * S * D);
        transduce_mean(memory.states.data(), memory.summary.data(), batch.lengths.data(), B, S, D);
        return memory;
    }

  private:
    struct Layer {
        Norm norm;
        std::vector<const Matrix*> kernels;  // of windows [kernel, D]
        const Matrix* merge;
    };
    Embedding embedding_;
    std::vector<int64_t> kernels_;
    std::vector<Layer> layers_;
    Norm norm_;

    void encode_one(const int64_t* ids, int length, float* states) const {
        const int D = embedding_.width;
        const size_t size = static_cast<size_t>(length) * D, count = kernels_.size();
        std::vector<float> x(size), seen(size), read(size * count), own(size);
        for (int s = 0; s < length; ++s) embed(embedding_, ids[s], s, x.data() + static_cast<size_t>(s) * D);
        for (const Layer& layer : layers_) {
            normalise(layer.norm, MULTI_KERNEL_EPS, x.data(), seen.data(), length, D);
            for (size_t k = 0; k < count; ++k) {
                const std::vector<float> found = windows(seen, length, kernels_[k]);
                check(transduce_multiply(layer.kernels[k], found.data(), own.data(), length, RELU));
                for (int s = 0; s < length; ++s)
                    std::copy_n(own.data() + static_cast<size_t>(s) * D, D, read.data() + (s * count + k) * D);
            }
            check(transduce_multiply(layer.merge, read.data(), own.data(), length, NONE));
            for (size_t i = 0; i < size; ++i) x[i] += own[i];
        }
        normalise(norm_, MULTI_KERNEL_EPS, x.data(), states, length, D);
    }

    // The states around each position, with zeros outside: [length, kernel, D].
    std::vector<float> windows(const std::vector<float>& x, int64_t length, int64_t kernel) const {
        const int64_t D = embedding_.width, before = (kernel - 1) / 2;
        std::vector<float> found(length * kernel * D);
        for (int64_t s = 0; s < length; ++s)
            for (int64_t k = std::max<int64_t>(0, before - s); k < std::min(kernel, length + before - s); ++k)
                std::copy_n(x.data() + (s + k - before) * D, D, found.data() + (s * kernel + k) * D);
        return found;
    }
};

}  // namespace transduce

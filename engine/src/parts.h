// The parts of all families: matrices, norms and embeddings of a file, as the structures of the kernels.
//
// The kernels trust their pointers. So every tensor is compared with the shape that the description of the model gives
// it, and every number of the description has its range, before a kernel reads one.
#ifndef TRANSDUCE_PARTS_H
#define TRANSDUCE_PARTS_H

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "file.h"
#include "layers.h"

namespace transduce {

const int64_t ANY = -1;                  // a size from 1
const int64_t LARGEST_NUMBER = 1 << 24;  // of a description
const int ANY_POSITION = INT32_MAX;      // of an embedding without positions

// The sizes of an encoder that a decoder needs: the width of its states and of its summary, and the ids that it reads.
struct Encoded {
    int64_t width, summary, vocabulary;
};
const Encoded NO_SOURCE = {0, 0, 0};  // of a language model

// Makes the parts from the tensors of a file, and keeps them: keep the object as long as the structures.
class Parts {
  public:
    explicit Parts(const File& file) : file_(file) {}

    bool has(const std::string& name) const { return file_.tensors.count(within_ + name) > 0; }

    // The result of a piece of work for which all names are those of tensors of a part: "0" stands for "0.NAME".
    template <class Work>
    auto within(const std::string& part, const Work& work) -> decltype(work()) {
        const std::string before = within_;
        within_ += part + ".";
        auto found = work();  // if it throws, nobody reads the parts any more
        within_ = before;
        return found;
    }

    // The tensor of this name. Throws Refusal if it has another shape or type, or numbers that are not finite.
    const Tensor& tensor(const std::string& name, const std::vector<int64_t>& shape, const std::string& type = "F32") const;

    // A copy of a tensor's numbers; null if the file has no such tensor.
    const float* floats(const std::string& name, const std::vector<int64_t>& shape);

    // The whole numbers of a tensor of the type I64; an empty list has none.
    std::vector<int64_t> whole_numbers(const std::string& name, const std::vector<int64_t>& shape = {ANY}) const;

    // The whole numbers of a tensor of the type U16; ANY stands for each number of them.
    std::vector<uint16_t> small_numbers(const std::string& name, int64_t count) const;

    // Log-probabilities [count] of a counted model: float32, or 8-bit places in a table NAME.values of 256. They may be
    // minus infinity.
    std::vector<float> likelihoods(const std::string& name, int64_t count) const;

    // The matrix of NAME.weight, NAME.scale (if it is 8-bit) and NAME.bias (if it has one).
    const Matrix* matrix(const std::string& name, int64_t outputs, int64_t inputs);

    Norm norm(const std::string& name, int64_t width);
    Embedding embedding(const Json& notes);

    // Structures one after the other in memory that stays.
    template <class T>
    const T* array(std::vector<T> items) {
        const auto kept = std::make_shared<std::vector<T>>(std::move(items));
        kept_.push_back(kept);
        return kept->data();
    }

    // After this no tensor is read any more, so the file's memory may go.
    void done() { tables_.clear(); }

  private:
    const File& file_;
    std::string within_;
    std::deque<std::shared_ptr<void>> kept_;
    std::map<std::string, const float*> tables_;  // by name, so that both sides of a tied model share one
};

}  // namespace transduce

#endif

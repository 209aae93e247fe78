// What an encoder reads in place of the vectors of tokens: those of a signal, or of words that are spelled.
#ifndef TRANSDUCE_FRONT_H
#define TRANSDUCE_FRONT_H

#include <memory>
#include <vector>

#include "model.h"

namespace transduce {

// The vectors [B, longest, E] of B sources, of which the first lengths[b] are real; the others are zeros.
struct Vectors {
    std::vector<int64_t> lengths;
    int64_t longest;
    std::vector<float> numbers;
};

class Front {
  public:
    virtual ~Front() = default;
    virtual int64_t width() const = 0;   // E
    virtual int64_t inputs() const = 0;  // the numbers of a step, or the ids
    virtual bool reads_signals() const { return true; }
    virtual Vectors operator()(const Batch& batch) const = 0;

  protected:
    static std::vector<float> multiplied(const Matrix& matrix, const std::vector<float>& x, int64_t rows);
};

// The front that a description of an encoder names; null if it reads tokens.
std::unique_ptr<Front> read_front(Parts& parts, const Json& notes);

}  // namespace transduce

#endif

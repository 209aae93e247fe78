// Recordings and pictures to steps: the numbers that a model of signals reads, as wings/signals/tokenizers makes them.
//
// Letters: S steps (frames of a recording, columns of a picture) of D numbers. C channels are normalised apart.
#ifndef TRANSDUCE_SIGNALS_H
#define TRANSDUCE_SIGNALS_H

#include <cstdint>
#include <memory>
#include <vector>

#include "engine.h"
#include "json.h"
#include "model.h"

namespace transduce {

class SignalReader {
  public:
    virtual ~SignalReader() = default;

    // `described` is the file's note of the sources: {"size", "record": {"signal", "mean", "scale"}}.
    static std::unique_ptr<SignalReader> read(const Json& described);

    // The steps [S, D] of a signal, rounded to half precision as in training. Throws Refusal for another signal.
    Steps operator()(const TransduceSignal& signal) const;

  protected:
    enum Normalisation { NONE_AT_ALL, CORPUS, OWN } normalisation_ = NONE_AT_ALL;
    int64_t channels_ = 1, size_ = 1;  // C and the adjacent numbers of each: D is their product
    std::vector<double> mean_, scale_;

    void read_moments(const Json& described);
    virtual Steps steps(const TransduceSignal& signal) const = 0;  // not normalised

  private:
    void normalise(Steps& steps) const;
};

// The steps of a signal, or those that it already has, `width` numbers each. Without a reader it must have them.
Steps read_steps(const SignalReader* reader, int64_t width, const TransduceSignal& signal);

}  // namespace transduce

#endif

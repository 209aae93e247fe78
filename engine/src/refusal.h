// Why the engine does not do something: one line for a person.
#ifndef TRANSDUCE_REFUSAL_H
#define TRANSDUCE_REFUSAL_H

#include <stdexcept>
#include <string>

namespace transduce {

class Refusal : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

}  // namespace transduce

#endif

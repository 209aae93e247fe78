// JSON that a stranger may have written. Every value is checked where it is read, and has a name for messages.
#ifndef TRANSDUCE_JSON_H
#define TRANSDUCE_JSON_H

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace transduce {

class Json {
  public:
    enum Kind { NOTHING, TRUTH, NUMBER, TEXT, LIST, TABLE };

    // Throws Refusal for a text that is not JSON, or that is nested more than 100 deep.
    static Json parse(const char* bytes, size_t count);

    Kind kind = NOTHING;
    bool truth = false, whole = false;  // `whole` numbers have no point and no exponent
    double number = 0;
    std::string text;
    std::vector<Json> items;                            // of a list
    std::vector<std::pair<std::string, Json>> entries;  // of a table, in order

    // The value of a table, or null if it has none of this name.
    const Json* find(const std::string& name) const;

    // The following throw Refusal, with the name, if the table has no value of this name or another one than described.
    const Json& at(const std::string& name) const;
    const Json& table(const std::string& name) const;
    int64_t number_in(const std::string& name, int64_t least, int64_t most) const;  // a whole number
    double real_in(const std::string& name, double least, double most) const;
    std::vector<double> reals_in(const std::string& name, double least, double most) const;  // a list
    bool truth_of(const std::string& name) const;
    const std::string& text_of(const std::string& name) const;

    // The place of the text of this name among those that are allowed.
    size_t choice(const std::string& name, const std::vector<std::string>& allowed) const;

    // The value as text, cut to a few characters, for messages.
    std::string shown() const;
};

}  // namespace transduce

#endif

// Text to ids and back: the units that need no other library (data/tokenizers/text.py). A row of ids ends with EOS.
#ifndef TRANSDUCE_TEXTS_H
#define TRANSDUCE_TEXTS_H

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "json.h"
#include "unicode.h"

namespace transduce {

class Tokenizer {
  public:
    // `described` is {"unit", "form", "lowercase", "record"}; the record is the tokenizer's own file. A side of ids has no
    // text, so its unit is all. With "features" a line has a list of features, a tab and the text; with "spelled" each word
    // of the text is cut alone, and has a mark before it.
    explicit Tokenizer(const Json& described);

    int64_t size() const { return size_; }  // 0 for ids, which have the model's; of a signal the numbers of a step
    bool is_signal() const { return unit_ == SIGNAL; }

    std::vector<int64_t> encode(const std::string& text) const;
    std::string decode(const std::vector<int64_t>& ids) const;

  private:
    enum Unit { CHARACTERS, WORDS, SYMBOLS, BYTES, LABELS, NOTHING, LIBRARY, IDS, SIGNAL } unit_;
    Form form_ = AS_IT_IS;
    bool lowercase_ = false;
    int64_t size_ = 0;
    int64_t pieces_ = 0;  // of the text: the ids of features, or of whole words, follow
    std::vector<std::string> entries_;
    std::unordered_map<std::string, int64_t> ids_, features_;
    std::string separator_;                   // of features; empty if a line has none
    bool spelled_ = false, shaped_ = false;   // whether the id of a word's shape follows its mark
    std::shared_ptr<const Tokenizer> known_;  // the words that are known as wholes; null if none

    void read_front(const Json& described);
    std::vector<int64_t> encode_text(const std::string& text) const;
    std::vector<int64_t> encode_features(const std::string& line) const;
    std::vector<int64_t> encode_words(const std::string& text) const;

    void add_piece(const Text& text, size_t first, size_t last, std::vector<int64_t>& to) const;
    void cut_words(const Text& text, std::vector<int64_t>& to) const;
    void cut_symbols(const Text& text, std::vector<int64_t>& to) const;
};

// True if a text has nothing to read (answers/empty_sources.py).
bool is_blank(const std::string& text);

}  // namespace transduce

#endif

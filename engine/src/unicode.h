// Unicode: UTF-8, normal forms, lower case, letters and spaces. A text is a vector of code points.
#ifndef TRANSDUCE_UNICODE_H
#define TRANSDUCE_UNICODE_H

#include <cstdint>
#include <string>
#include <vector>

namespace transduce {

typedef std::vector<uint32_t> Text;

// The code points of UTF-8. Throws Refusal for other bytes.
Text decode_utf8(const char* bytes, size_t count);

void append_utf8(uint32_t c, std::string& to);
std::string encode_utf8(const Text& text);

// UTF-8 in which U+FFFD replaces each longest beginning of a character that bytes break off.
std::string repair_utf8(const std::string& bytes);

enum Form { AS_IT_IS, NFC, NFD, NFKC };

Text normal_form(const Text& text, Form form);
Text lower_case(const Text& text);
bool is_letter(uint32_t c);  // a part of a word
bool is_space(uint32_t c);

// The place of a word's shape among x, Xx, XX and 9 (wings/labels/spelled.py).
int64_t shape_of(const Text& word);
const int64_t SHAPES = 4;

}  // namespace transduce

#endif

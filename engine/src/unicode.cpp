// Unicode, from the tables that engine/tables.py wrote.

#include "unicode.h"

#include <algorithm>
#include <iterator>

#include "refusal.h"

namespace transduce {

struct Mapping {
    uint32_t from;
    uint16_t place, count;
};
struct Pair {
    uint32_t first, second, one;
};
struct Class {
    uint32_t mark;
    uint8_t number;
};
struct Span {
    uint32_t first, last;
};

#include "unicode.inc"

const uint32_t FIRST_MARK = 0x300;  // below it every character stays in the form NFC, and is no mark
const uint32_t SYLLABLES = 0xAC00, LEADING = 0x1100, VOWELS = 0x1161, TRAILING = 0x11A7;
const uint32_t LEADINGS = 19, VOWEL_COUNT = 21, TRAILINGS = 28, SYLLABLE_COUNT = LEADINGS * VOWEL_COUNT * TRAILINGS;

template <class Row, size_t N, class Key>
static const Row* find_row(const Row (&table)[N], uint32_t wanted, Key key) {
    const Row* found = std::lower_bound(table, table + N, wanted, [&](const Row& row, uint32_t c) { return key(row) < c; });
    return found != table + N && key(*found) == wanted ? found : nullptr;
}

template <size_t N, size_t M>
static bool append_mapped(const Mapping (&table)[N], const uint32_t (&pool)[M], uint32_t c, Text& to) {
    const Mapping* found = find_row(table, c, [](const Mapping& row) { return row.from; });
    if (found == nullptr) return false;
    to.insert(to.end(), pool + found->place, pool + found->place + found->count);
    return true;
}

template <size_t N>
static bool is_in(const Span (&spans)[N], uint32_t c) {
    const Span* after =
        std::upper_bound(spans, spans + N, c, [](uint32_t value, const Span& span) { return value < span.first; });
    return after != spans && c <= std::prev(after)->last;
}

bool is_letter(uint32_t c) { return is_in(LETTERS, c); }
bool is_space(uint32_t c) { return is_in(SPACES, c); }

int64_t shape_of(const Text& word) {
    const auto any = [&](const auto& table) {
        return std::any_of(word.begin(), word.end(), [&](uint32_t c) { return is_in(table, c); });
    };
    if (!word.empty() && is_in(CAPITALS, word[0])) return word.size() > 1 && !any(SMALL) ? 2 : 1;
    return any(DIGITS) ? 3 : 0;
}

// ---------------------------------------------------------------- normal forms

static uint8_t class_of(uint32_t c) {
    if (c < FIRST_MARK) return 0;
    const Class* found = find_row(CLASSES, c, [](const Class& row) { return row.mark; });
    return found == nullptr ? 0 : found->number;
}

static void append_decomposed(uint32_t c, bool compatible, Text& to) {
    if (c - SYLLABLES < SYLLABLE_COUNT) {
        const uint32_t place = c - SYLLABLES, last = place % TRAILINGS;
        to.push_back(LEADING + place / (VOWEL_COUNT * TRAILINGS));
        to.push_back(VOWELS + place / TRAILINGS % VOWEL_COUNT);
        if (last) to.push_back(TRAILING + last);
    } else if (!(compatible && append_mapped(COMPATIBLE, COMPATIBLE_POOL, c, to)) &&
               !append_mapped(CANONICAL, CANONICAL_POOL, c, to)) {
        to.push_back(c);
    }
}

// Sorts each run of marks by their classes; marks of one class keep their order.
static void order_marks(Text& text) {
    for (size_t i = 0; i < text.size();) {
        size_t end = i;
        while (end < text.size() && class_of(text[end])) ++end;
        std::stable_sort(
            text.begin() + i, text.begin() + end, [](uint32_t a, uint32_t b) { return class_of(a) < class_of(b); });
        i = end + 1;
    }
}

// The character that two become, or 0.
static uint32_t composed(uint32_t a, uint32_t b) {
    if (a - LEADING < LEADINGS && b - VOWELS < VOWEL_COUNT)
        return SYLLABLES + ((a - LEADING) * VOWEL_COUNT + (b - VOWELS)) * TRAILINGS;
    if (a - SYLLABLES < SYLLABLE_COUNT && (a - SYLLABLES) % TRAILINGS == 0 && b > TRAILING && b < TRAILING + TRAILINGS)
        return a + (b - TRAILING);
    const Pair wanted = {a, b, 0};
    const auto before = [](const Pair& one, const Pair& two) {
        return one.first != two.first ? one.first < two.first : one.second < two.second;
    };
    const Pair* found = std::lower_bound(std::begin(PAIRS), std::end(PAIRS), wanted, before);
    return found != std::end(PAIRS) && found->first == a && found->second == b ? found->one : 0;
}

static Text compose(const Text& text) {
    Text to;
    size_t starter = 0;
    bool has_starter = false;
    int last = 0;  // the class of the last character that stayed after the starter
    for (uint32_t c : text) {
        const int own = class_of(c);
        const bool blocked = to.size() > starter + 1 && last >= own;
        const uint32_t one = has_starter && !blocked ? composed(to[starter], c) : 0;
        if (one) {
            to[starter] = one;
            continue;
        }
        if (own == 0) {
            starter = to.size();
            has_starter = true;
        }
        last = own;
        to.push_back(c);
    }
    return to;
}

Text normal_form(const Text& text, Form form) {
    const auto is_plain = [=](uint32_t c) { return c < (form == NFC ? FIRST_MARK : 0x80); };
    if (form == AS_IT_IS || std::all_of(text.begin(), text.end(), is_plain)) return text;
    Text found;
    for (uint32_t c : text) append_decomposed(c, form == NFKC, found);
    order_marks(found);
    return form == NFD ? found : compose(found);
}

Text lower_case(const Text& text) {
    Text found;
    for (uint32_t c : text)
        if (!append_mapped(LOWER, LOWER_POOL, c, found)) found.push_back(c);
    return found;
}

// ---------------------------------------------------------------- UTF-8

void append_utf8(uint32_t c, std::string& to) {
    if (c < 0x80) {
        to += static_cast<char>(c);
        return;
    }
    const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const uint32_t first[] = {0, 0xC0, 0xE0, 0xF0};
    to += static_cast<char>(first[more] | c >> (6 * more));
    for (int i = more - 1; i >= 0; --i) to += static_cast<char>(0x80 | (c >> (6 * i) & 0x3F));
}

std::string encode_utf8(const Text& text) {
    std::string found;
    for (uint32_t c : text) append_utf8(c, found);
    return found;
}

// Reads a character. `used` becomes its bytes, or the bytes of its longest right beginning if it is broken: then false.
static bool read_character(const unsigned char* at, size_t left, uint32_t& c, size_t& used) {
    used = 1;
    c = at[0];
    if (c < 0x80) return true;
    const size_t more = c >= 0xF0 ? 3 : c >= 0xE0 ? 2 : 1;
    if (c < 0xC2 || c > 0xF4) return false;
    unsigned least = 0x80, most = 0xBF;  // of the second byte: no character has two spellings, and none is a surrogate
    if (c == 0xE0) least = 0xA0;
    if (c == 0xED) most = 0x9F;
    if (c == 0xF0) least = 0x90;
    if (c == 0xF4) most = 0x8F;
    c &= 0x3F >> more;
    for (size_t i = 1; i <= more; ++i) {
        if (i >= left || at[i] < least || at[i] > most) return false;
        c = c << 6 | (at[i] & 0x3F);
        ++used;
        least = 0x80;
        most = 0xBF;
    }
    return true;
}

Text decode_utf8(const char* bytes, size_t count) {
    const unsigned char* at = reinterpret_cast<const unsigned char*>(bytes);
    Text found;
    found.reserve(count);
    for (size_t i = 0, used = 0; i < count; i += used) {
        uint32_t c = 0;
        if (!read_character(at + i, count - i, c, used))
            throw Refusal("the text is not UTF-8: byte " + std::to_string(i + 1) + " is wrong");
        found.push_back(c);
    }
    return found;
}

std::string repair_utf8(const std::string& bytes) {
    const unsigned char* at = reinterpret_cast<const unsigned char*>(bytes.data());
    std::string found;
    for (size_t i = 0, used = 0; i < bytes.size(); i += used) {
        uint32_t c = 0;
        append_utf8(read_character(at + i, bytes.size() - i, c, used) ? c : 0xFFFD, found);
    }
    return found;
}

}  // namespace transduce

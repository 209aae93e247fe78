// Reads JSON. json.h explains the checks.

#include "json.h"

#include <cmath>
#include <cstdlib>

#include "refusal.h"
#include "unicode.h"

namespace transduce {

const int DEEPEST = 100;
const size_t SHOWN = 60;  // characters of a value in a message

namespace {

class JsonReader {
  public:
    JsonReader(const char* bytes, size_t count) : at_(bytes), first_(bytes), end_(bytes + count) {}

    Json whole() {
        Json found = value(0);
        skip_spaces();
        if (at_ != end_) fail("something follows its end");
        return found;
    }

  private:
    const char *at_, *first_, *end_;

    [[noreturn]] void fail(const std::string& why) const {
        throw Refusal("its description is no JSON: " + why + " at byte " + std::to_string(at_ - first_ + 1));
    }
    void skip_spaces() {
        while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r')) ++at_;
    }
    char next() {
        if (at_ == end_) fail("it ends too early");
        return *at_++;
    }
    bool take(char wanted) {
        skip_spaces();
        if (at_ == end_ || *at_ != wanted) return false;
        ++at_;
        return true;
    }
    void expect(char wanted) {
        if (!take(wanted)) fail(std::string("'") + wanted + "' was expected");
    }
    bool take_word(const char* word) {
        const size_t size = std::char_traits<char>::length(word);
        if (static_cast<size_t>(end_ - at_) < size || std::char_traits<char>::compare(at_, word, size) != 0) return false;
        at_ += size;
        return true;
    }

    Json value(int depth) {
        if (depth > DEEPEST) fail("it is nested too deep");
        skip_spaces();
        if (at_ == end_) fail("it ends too early");
        Json found;
        if (*at_ == '{') {
            ++at_;
            found.kind = Json::TABLE;
            for (bool more = !take('}'); more; more = !take('}')) {
                if (!found.entries.empty()) expect(',');
                skip_spaces();
                std::string name = text();
                expect(':');
                found.entries.emplace_back(std::move(name), value(depth + 1));
            }
        } else if (*at_ == '[') {
            ++at_;
            found.kind = Json::LIST;
            for (bool more = !take(']'); more; more = !take(']')) {
                if (!found.items.empty()) expect(',');
                found.items.push_back(value(depth + 1));
            }
        } else if (*at_ == '"') {
            found.kind = Json::TEXT;
            found.text = text();
        } else if (take_word("true") || take_word("false")) {
            found.kind = Json::TRUTH;
            found.truth = at_[-2] == 'u';
        } else if (!take_word("null")) {
            read_number(found);
        }
        return found;
    }

    void read_number(Json& found) {
        std::string digits;
        while (at_ != end_ && digits.size() < 400 && std::string("+-.eE0123456789").find(*at_) != std::string::npos)
            digits += *at_++;
        char* after = nullptr;
        found.kind = Json::NUMBER;
        found.number = std::strtod(digits.c_str(), &after);
        found.whole = digits.find_first_of(".eE") == std::string::npos;
        if (digits.empty() || *after != '\0') fail("a value was expected");
    }

    uint32_t four_digits() {
        uint32_t found = 0;
        for (int i = 0; i < 4; ++i) {
            const char c = next();
            const int digit = '0' <= c && c <= '9'   ? c - '0'
                              : 'a' <= c && c <= 'f' ? c - 'a' + 10
                              : 'A' <= c && c <= 'F' ? c - 'A' + 10
                                                     : -1;
            if (digit < 0) fail("four hexadecimal digits were expected");
            found = found * 16 + static_cast<uint32_t>(digit);
        }
        return found;
    }

    std::string text() {
        if (next() != '"') fail("a text was expected");
        std::string found;
        for (char c = next(); c != '"'; c = next()) {
            if (c != '\\') {
                if (0 <= c && c < ' ') fail("a control character in a text");
                found += c;
                continue;
            }
            static const std::string names = "\"\\/bfnrt", meant = "\"\\/\b\f\n\r\t";
            c = next();
            const size_t place = names.find(c);
            if (place != std::string::npos) {
                found += meant[place];
                continue;
            }
            if (c != 'u') fail("an unknown escape");
            uint32_t one = four_digits();
            if (0xD800 <= one && one < 0xDC00 && take_word("\\u")) {
                const uint32_t two = four_digits();
                if (two < 0xDC00 || two > 0xDFFF) fail("half of a surrogate pair");
                one = 0x10000 + ((one - 0xD800) << 10) + (two - 0xDC00);
            }
            if (0xD800 <= one && one < 0xE000) fail("half of a surrogate pair");
            append_utf8(one, found);
        }
        decode_utf8(found.data(), found.size());  // refuses other bytes than UTF-8
        return found;
    }
};

[[noreturn]] void refuse(const std::string& name, const std::string& value, const std::string& expected) {
    throw Refusal(name + " = " + value + ": " + expected + " was expected");
}

std::string shown_number(double number) {
    std::string digits = std::to_string(number);
    return digits.substr(0, std::min(digits.size(), digits.find(".000000")));
}

}  // namespace

Json Json::parse(const char* bytes, size_t count) { return JsonReader(bytes, count).whole(); }

const Json* Json::find(const std::string& name) const {
    for (const auto& entry : entries)
        if (entry.first == name) return &entry.second;
    return nullptr;
}

const Json& Json::at(const std::string& name) const {
    const Json* found = find(name);
    if (found == nullptr) throw Refusal("it has no " + name.substr(0, SHOWN) + ": another version of transduce made it");
    return *found;
}

const Json& Json::table(const std::string& name) const {
    const Json& found = at(name);
    if (found.kind != TABLE) refuse(name, found.shown(), "a table");
    return found;
}

int64_t Json::number_in(const std::string& name, int64_t least, int64_t most) const {
    const Json& found = at(name);
    if (found.kind != NUMBER || !found.whole ||
        !(static_cast<double>(least) <= found.number && found.number <= static_cast<double>(most)))
        refuse(name, found.shown(), "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
    return static_cast<int64_t>(found.number);
}

double Json::real_in(const std::string& name, double least, double most) const {
    const Json& found = at(name);
    if (found.kind != NUMBER || !(least <= found.number && found.number <= most))
        refuse(name, found.shown(), "a number from " + shown_number(least) + " to " + shown_number(most));
    return found.number;
}

std::vector<double> Json::reals_in(const std::string& name, double least, double most) const {
    std::vector<double> found;
    for (const Json& each : at(name).items) {
        Json one;
        one.entries = {{name, each}};
        found.push_back(one.real_in(name, least, most));
    }
    return found;
}

bool Json::truth_of(const std::string& name) const {
    const Json& found = at(name);
    if (found.kind != TRUTH) refuse(name, found.shown(), "true or false");
    return found.truth;
}

const std::string& Json::text_of(const std::string& name) const {
    const Json& found = at(name);
    if (found.kind != TEXT) refuse(name, found.shown(), "a text");
    return found.text;
}

size_t Json::choice(const std::string& name, const std::vector<std::string>& allowed) const {
    const Json& found = at(name);
    std::string listed;
    for (size_t i = 0; i < allowed.size(); ++i) {
        if (found.kind == TEXT && found.text == allowed[i]) return i;
        listed += (i ? ", " : "") + allowed[i];
    }
    refuse(name, found.shown(), "one of " + listed);
}

std::string Json::shown() const {
    if (kind == NOTHING) return "null";
    if (kind == TRUTH) return truth ? "true" : "false";
    if (kind == NUMBER) return shown_number(number);
    if (kind == LIST) return "a list of " + std::to_string(items.size());
    if (kind == TABLE) return "a table of " + std::to_string(entries.size());
    std::string found;
    for (char c : text.substr(0, SHOWN)) found += 0 <= c && c < ' ' ? ' ' : c;
    return "'" + found + "'";
}

}  // namespace transduce

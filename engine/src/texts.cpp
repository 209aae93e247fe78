// Cuts text into characters, words, symbols or bytes. texts.h explains the rows.

#include "texts.h"

#include <algorithm>

#include "refusal.h"
#include "model.h"

namespace transduce {

const uint32_t MARK = 0x2581;  // "▁", in place of the space before a word
static const std::string MARKED = "\xE2\x96\x81";
static const std::vector<std::string> SPECIALS = {"<pad>", "<s>", "</s>", "<unk>"};

// White space as Python has it.
static bool is_white(uint32_t c) { return is_space(c) || (0x1C <= c && c <= 0x1F); }

Tokenizer::Tokenizer(const Json& described) {
    unit_ = static_cast<Unit>(
        described.choice("unit", {"characters", "words", "symbols", "bytes", "labels", "nothing", "library", "ids", "signal"}));
    if (unit_ == IDS) return;
    if (unit_ == SIGNAL) {
        size_ = described.number_in("size", 1, LARGEST_NUMBER);
        return;
    }
    form_ = static_cast<Form>(described.choice("form", {"none", "NFC", "NFD", "NFKC"}));
    lowercase_ = described.truth_of("lowercase");
    size_ = described.number_in("size", static_cast<int64_t>(SPECIALS.size()), 1 << 24);
    pieces_ = size_;
    if (unit_ == LIBRARY || unit_ == NOTHING) return;
    read_front(described);
    if (unit_ == LABELS) {
        const Json& columns = described.table("record").at("labels");
        entries_ = SPECIALS;
        for (const Json& column : columns.items)
            for (const Json& label : column.items) entries_.push_back(label.text);
        if (columns.items.size() != 1 || entries_.size() != static_cast<size_t>(size_))
            throw Refusal("labels = " + columns.shown() + ": one column of labels was expected, as many as 'size' says");
        return;
    }
    const Json& vocabulary = described.table("record").table("model").table("vocab");
    if (vocabulary.entries.size() != static_cast<size_t>(pieces_))
        throw Refusal("a vocabulary of " + std::to_string(vocabulary.entries.size()) + " entries: " + std::to_string(pieces_) +
                      " were expected");
    entries_.resize(vocabulary.entries.size());
    std::vector<bool> seen(entries_.size());
    for (const auto& entry : vocabulary.entries) {
        const int64_t id = vocabulary.number_in(entry.first, 0, pieces_ - 1);
        if (seen[id]) throw Refusal("a vocabulary has the id " + std::to_string(id) + " twice");
        seen[id] = true;
        entries_[id] = entry.first;
        ids_[entry.first] = id;
    }
    for (size_t i = 0; i < SPECIALS.size(); ++i)
        if (entries_[i] != SPECIALS[i]) throw Refusal("id " + std::to_string(i) + " of a vocabulary is no " + SPECIALS[i]);
    if (unit_ == BYTES && pieces_ != 256 + static_cast<int64_t>(SPECIALS.size()))
        throw Refusal("a vocabulary of bytes has " + std::to_string(size_) + " entries");
}

void Tokenizer::add_piece(const Text& text, size_t first, size_t last, std::vector<int64_t>& to) const {
    std::string piece;
    for (size_t i = first; i < last; ++i) append_utf8(text[i], piece);
    const auto found = ids_.find(piece);
    to.push_back(found == ids_.end() ? UNK : found->second);
}

// Words and single other characters, each with the mark before it; a mark that nothing follows is a piece itself.
void Tokenizer::cut_words(const Text& text, std::vector<int64_t>& to) const {
    if (text.empty()) return;
    Text marked = {MARK};
    for (uint32_t c : text) marked.push_back(c == ' ' ? MARK : c);
    for (size_t i = 0; i < marked.size();) {
        size_t end = i + (marked[i] == MARK);
        if (end < marked.size() && is_letter(marked[end]))
            while (end < marked.size() && is_letter(marked[end])) ++end;
        else if (end < marked.size() && marked[end] != MARK)
            ++end;
        add_piece(marked, i, end, to);
        i = end;
    }
}

// What stands between white space. A special token in the text is cut after its "<".
void Tokenizer::cut_symbols(const Text& text, std::vector<int64_t>& to) const {
    const auto begins_special = [&](size_t i, size_t end) {
        return std::any_of(SPECIALS.begin(), SPECIALS.end(), [&](const std::string& special) {
            return i + special.size() <= end && std::equal(special.begin(), special.end(), text.begin() + i,
                                                    [](char a, uint32_t b) { return static_cast<uint32_t>(a) == b; });
        });
    };
    for (size_t i = 0; i < text.size();) {
        while (i < text.size() && is_space(text[i])) ++i;
        size_t end = i, first = i;
        while (end < text.size() && !is_space(text[end])) ++end;
        for (; i < end; ++i) {
            if (!begins_special(i, end)) continue;
            if (first < i) add_piece(text, first, i, to);
            add_piece(text, i, i + 1, to);
            first = i + 1;
        }
        if (first < end) add_piece(text, first, end, to);
    }
}

// Features and whole words, whose ids follow those of the text.
void Tokenizer::read_front(const Json& described) {
    const Json* of_text = described.find("features");
    if (of_text != nullptr) {
        separator_ = of_text->text_of("separator");
        const std::vector<Json>& names = of_text->at("names").items;
        pieces_ -= static_cast<int64_t>(names.size());
        if (separator_.empty() || separator_.find('\t') != std::string::npos || pieces_ < static_cast<int64_t>(SPECIALS.size()))
            throw Refusal("features: a separator, and fewer names than 'size' says were expected");
        for (const Json& name : names) {
            const int64_t id = pieces_ + static_cast<int64_t>(features_.size());
            if (name.kind != Json::TEXT || !features_.emplace(name.text, id).second)
                throw Refusal("features = " + of_text->at("names").shown() + ": different texts were expected");
        }
    }
    const Json* by_words = described.find("spelled");
    if (by_words == nullptr) return;
    if (of_text != nullptr) throw Refusal("spelled: a text without features was expected");
    spelled_ = true;
    shaped_ = by_words->find("shapes") != nullptr && by_words->truth_of("shapes");
    if (shaped_) pieces_ -= SHAPES;  // the ids of shapes follow those of pieces
    if (by_words->find("known") == nullptr) {
        if (pieces_ < static_cast<int64_t>(SPECIALS.size())) throw Refusal("shapes: a larger 'size' was expected");
        return;
    }
    const Json& known = by_words->table("known");
    if (known.find("spelled") != nullptr || known.find("features") != nullptr)
        throw Refusal("known: whole words were expected");
    known_ = std::make_shared<const Tokenizer>(known);
    pieces_ -= known_->size_ - static_cast<int64_t>(SPECIALS.size());
    if (known_->unit_ > BYTES || pieces_ < static_cast<int64_t>(SPECIALS.size()))
        throw Refusal("known: fewer whole words than 'size' says were expected");
}

// Its features, then its text.
std::vector<int64_t> Tokenizer::encode_features(const std::string& line) const {
    const size_t tab = line.find('\t');
    if (tab == std::string::npos) throw Refusal("it has no tab: expected features, a tab and the text; mend the line");
    std::vector<int64_t> found;
    for (size_t first = 0, last; first <= tab; first = last + separator_.size()) {
        last = std::min(tab, line.find(separator_, first));
        if (last == first) continue;
        const auto id = features_.find(encode_utf8(normal_form(decode_utf8(line.data() + first, last - first), NFC)));
        found.push_back(id == features_.end() ? UNK : id->second);
    }
    const std::vector<int64_t> rest = encode_text(line.substr(tab + 1));
    found.insert(found.end(), rest.begin(), rest.end());
    return found;
}

// Each word with its mark: BOS, or its own if it is known as a whole.
std::vector<int64_t> Tokenizer::encode_words(const std::string& given) const {
    const Text text = decode_utf8(given.data(), given.size());
    std::vector<int64_t> found;
    for (size_t i = 0; i < text.size();) {
        if (is_white(text[i])) {
            ++i;
            continue;
        }
        Text letters;
        for (; i < text.size() && !is_white(text[i]); ++i) letters.push_back(text[i]);
        const std::string word = encode_utf8(letters);
        const std::vector<int64_t> whole = known_ ? known_->encode(word) : std::vector<int64_t>();
        const bool known = whole.size() == 2 && whole[0] != UNK;
        found.push_back(known ? pieces_ + shaped_ * SHAPES + whole[0] - static_cast<int64_t>(SPECIALS.size()) : BOS);
        if (shaped_) found.push_back(pieces_ + shape_of(letters));
        const std::vector<int64_t> pieces = encode_text(word);
        found.insert(found.end(), pieces.begin(), pieces.end() - 1);
    }
    found.push_back(EOS);
    return found;
}

std::vector<int64_t> Tokenizer::encode(const std::string& given) const {
    if (!separator_.empty()) return encode_features(given);
    return spelled_ ? encode_words(given) : encode_text(given);
}

std::vector<int64_t> Tokenizer::encode_text(const std::string& given) const {
    if (unit_ == IDS)
        throw Refusal("this file is a part of an export to native and has no tokenizers: name the folder of the export");
    if (unit_ == NOTHING) throw Refusal("this is a language model, which has no sources: score texts, or generate them");
    if (unit_ == SIGNAL) throw Refusal("its sources are signals, and text was given");
    if (unit_ == LABELS) throw Refusal("its source tokenizer reads labels, and text was expected");
    if (unit_ == LIBRARY) throw Refusal("its source tokenizer needs the library tokenizers: pip install tokenizers");
    Text text = normal_form(decode_utf8(given.data(), given.size()), form_);
    if (lowercase_) text = normal_form(lower_case(text), form_);  // lower case can leave a letter and its accent apart
    std::vector<int64_t> found;
    if (unit_ == WORDS) cut_words(text, found);
    if (unit_ == SYMBOLS) cut_symbols(text, found);
    if (unit_ == CHARACTERS)
        for (size_t i = 0; i < text.size(); ++i) add_piece(text, i, i + 1, found);
    if (unit_ == BYTES)
        for (char byte : encode_utf8(text))
            found.push_back(static_cast<int64_t>(SPECIALS.size()) + static_cast<unsigned char>(byte));
    found.push_back(EOS);
    return found;
}

std::string Tokenizer::decode(const std::vector<int64_t>& ids) const {
    std::string found;
    if (unit_ == LIBRARY || unit_ == SIGNAL) return found;
    for (int64_t id : ids) {
        if (id == PAD || id == BOS || id == EOS || id < 0 || id >= pieces_) continue;
        if (unit_ == SYMBOLS && !found.empty()) found += ' ';
        if (unit_ == BYTES && id != UNK)
            found += static_cast<char>(id - static_cast<int64_t>(SPECIALS.size()));
        else
            found += (unit_ == WORDS && id == UNK ? MARKED : "") + entries_[id];
    }
    if (unit_ == BYTES) return repair_utf8(found);
    if (unit_ != WORDS) return found;
    for (size_t at = found.find(MARKED); at != std::string::npos; at = found.find(MARKED, at + 1))
        found.replace(at, MARKED.size(), " ");
    return found.substr(!found.empty() && found[0] == ' ');
}

bool is_blank(const std::string& text) {
    const Text found = decode_utf8(text.data(), text.size());
    return std::all_of(found.begin(), found.end(), is_white);
}

}  // namespace transduce

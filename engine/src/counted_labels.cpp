// Linear classifiers and taggers of sparse features, alone and beside a trained model (wings/labels/linear.py,
// linear_tagger.py and several.py). The features are those of ngram_features.py and word_features.py: numbers of 64 bits,
// computed from ids.

#include <algorithm>
#include <cmath>
#include <map>

#include "models.h"
#include "refusal.h"

namespace transduce {

typedef int64_t Key;
typedef std::vector<Key> Keys;

const uint64_t HASH_BASE = 0x5851F42D4C957F2D, HASH_FIRST = 0x9E3779B97F4A7C15, HASH_SECOND = 0x14057B7EF767814F;

static Key times(Key x, uint64_t factor) { return static_cast<Key>(static_cast<uint64_t>(x) * factor); }
static Key plus(Key x, Key y) { return static_cast<Key>(static_cast<uint64_t>(x) + static_cast<uint64_t>(y)); }

// A bijection that changes about half of the bits.
static Key mixed(Key x) {
    x = times(plus(x, 1), HASH_FIRST);
    x = times(x ^ (x >> 29), HASH_SECOND);
    return x ^ (x >> 32);
}
static Key chained(Key hash, Key next) { return plus(times(hash, HASH_BASE), next); }
static Key paired(Key one, Key other) { return chained(mixed(one), other); }
static Key numbered(Key hash, int64_t number) { return mixed(plus(hash, times(number, HASH_SECOND))); }

// A hash of ids: their sum, weighted by their places, which begin at `first`.
static Key weighted_sum(const int64_t* begin, const int64_t* end, int64_t first) {
    Key sum = 0, power = 1;
    for (int64_t i = 0; i < first; ++i) power = times(power, HASH_BASE);
    for (; begin < end; ++begin, power = times(power, HASH_BASE)) sum = plus(sum, times(mixed(*begin), power));
    return sum;
}

// The ids of a source, EOS at its end, of which some are marks where a word begins.
struct MarkedRow {
    const int64_t* ids;
    int64_t length, alphabet;

    bool begins(int64_t s) const { return ids[s] == BOS || ids[s] >= alphabet; }
    bool is_mark(int64_t s) const { return begins(s) || ids[s] == EOS; }
};

// ---------------------------------------------------------------- n-grams of a source

// The shortest and the longest n.
struct Range {
    int64_t least, most;

    static Range read(const Json& notes, const std::string& name) {
        const std::vector<double> both = notes.reals_in(name, 1, LARGEST_NUMBER);
        if (both.size() != 2 || both[0] > both[1]) throw Refusal(name + ": the shortest and the longest n-gram were expected");
        return {static_cast<int64_t>(both[0]), static_cast<int64_t>(both[1])};
    }
};

// The n-grams of pieces within words, which may have the mark before and the mark after them.
static Keys piece_grams(const MarkedRow& row, Range pieces) {
    Keys found;
    for (int64_t first = 0; first < row.length; ++first) {
        Key hash = 0, power = 1;
        for (int64_t n = 1; n <= pieces.most && first + n <= row.length; ++n, power = times(power, HASH_BASE)) {
            const int64_t last = first + n - 1;
            if (n > 2 && row.is_mark(last - 1)) break;  // a mark within
            hash = plus(hash, times(mixed(row.is_mark(last) ? BOS : row.ids[last]), power));
            if (n >= pieces.least && (n > 1 || !row.is_mark(first))) found.push_back(numbered(hash, n));
        }
    }
    return found;
}

// A hash of each word that has pieces.
static Keys word_hashes(const MarkedRow& row) {
    Keys found;
    for (int64_t first = 0, last; first < row.length; first = last) {
        const int64_t marked = row.is_mark(first);
        for (last = first + 1; last < row.length && !row.is_mark(last);) ++last;
        if (first + marked < last) found.push_back(mixed(weighted_sum(row.ids + first + marked, row.ids + last, marked)));
    }
    return found;
}

// The n-grams of words, and the pairs of words, or ends of the source, that stand 1 to `apart` places apart.
static Keys word_grams(const MarkedRow& row, Range words, int64_t apart) {
    Keys found, hashes = word_hashes(row);
    const int64_t count = static_cast<int64_t>(hashes.size());
    for (int64_t first = 0; first < count; ++first) {
        Key gram = 0;
        for (int64_t n = 1; n <= words.most && first + n <= count; ++n) {
            gram = mixed(chained(gram, hashes[first + n - 1]));
            if (n >= words.least) found.push_back(numbered(gram, -n));
        }
    }
    hashes.insert(hashes.begin(), BOS);
    hashes.push_back(EOS);
    for (int64_t distance = 1; distance <= std::min(apart, count + 1); ++distance)
        for (int64_t i = 0; i + distance < count + 2; ++i)
            found.push_back(mixed(plus(paired(hashes[i], hashes[i + distance]), distance)));
    return found;
}

// ---------------------------------------------------------------- the features of a word

const int64_t MOST_ENDS = 5;  // the longest beginning and the longest ending of a word, in pieces
const Key NO_END = -1, NO_WORD = -2;

struct SpelledWord {
    Key known, whole, first[MOST_ENDS], last[MOST_ENDS];

    // The word of the ids from `begin` to before `end`.
    SpelledWord(int64_t mark, const int64_t* begin, const int64_t* end) {
        const int64_t length = end - begin;
        whole = mixed(plus(weighted_sum(begin, end, 0), length));
        known = mark == BOS ? whole : mark;
        Key forward = 0, backward = 0;
        for (int64_t n = 0; n < MOST_ENDS; ++n) {
            if (n < length) {
                forward = mixed(chained(forward, begin[n]));
                backward = mixed(chained(backward, end[-1 - n]));
            }
            first[n] = n < length ? forward : NO_END;
            last[n] = n < length ? backward : NO_END;
        }
    }
    Key shape() const { return first[0]; }
    Key ending() const { return last[2] == NO_END ? whole : last[2]; }
};

// The words of a source. In one without marks each id is a word.
static std::vector<SpelledWord> spelled_words(const MarkedRow& row) {
    const int64_t last = row.length - 1;  // EOS
    std::vector<int64_t> begins;
    for (int64_t s = 0; s < last; ++s)
        if (row.begins(s)) begins.push_back(s);
    const int64_t marked = !begins.empty();
    for (int64_t s = 0; s < last && !marked; ++s) begins.push_back(s);
    std::vector<SpelledWord> found;
    for (size_t w = 0; w < begins.size(); ++w) {
        const int64_t end = w + 1 < begins.size() ? begins[w + 1] : last;
        found.emplace_back(marked ? row.ids[begins[w]] : BOS, row.ids + begins[w] + marked, row.ids + end);
    }
    return found;
}

// The features of word w: its spelling, its ends, the words beside it, and pairs of these.
static Keys word_features(const std::vector<SpelledWord>& words, int64_t w) {
    const auto beside = [&](int64_t by, Key (*value)(const SpelledWord&)) {
        const int64_t at = w + by;
        return at < 0 || at >= static_cast<int64_t>(words.size()) ? NO_WORD : value(words[at]);
    };
    const auto known = [](const SpelledWord& word) { return word.known; };
    const auto ending = [](const SpelledWord& word) { return word.ending(); };
    const auto shape = [](const SpelledWord& word) { return word.shape(); };
    const SpelledWord& word = words[w];
    const Key before = beside(-1, known), after = beside(1, known), before2 = beside(-2, known), after2 = beside(2, known),
              ending_before = beside(-1, ending), ending_after = beside(1, ending);
    Keys found = {word.known, word.whole};
    found.insert(found.end(), word.first, word.first + MOST_ENDS);
    found.insert(found.end(), word.last, word.last + MOST_ENDS);
    const Keys others = {before, after, before2, after2, ending_before, ending_after, beside(-1, shape), beside(1, shape),
        paired(before, word.known), paired(word.known, after), paired(before, after), paired(before2, before),
        paired(after, after2), paired(ending_before, word.ending()), paired(word.ending(), ending_after),
        paired(word.shape(), paired(ending_before, ending_after))};
    found.insert(found.end(), others.begin(), others.end());
    for (size_t k = 0; k < found.size(); ++k) found[k] = numbered(found[k], static_cast<int64_t>(k) + 1);
    return found;
}

// ---------------------------------------------------------------- models

// A labeller with weights [F, V] of features.
class LinearLabeller : public Labeller {
  public:
    LinearLabeller(Parts& parts, const Json& notes)
        : alphabet_(notes.number_in("alphabet", UNK + 1, LARGEST_NUMBER)),
          wholes_(notes.number_in("wholes", 0, LARGEST_NUMBER)), keys_(parts.whole_numbers("keys")) {
        if (!std::is_sorted(keys_.begin(), keys_.end())) throw Refusal("keys is not in ascending order");
        labels_ = parts.tensor("bias", {ANY}).shape[0];
        if (labels_ <= UNK + 1) throw Refusal("bias has no label");
        bias_ = parts.floats("bias", {labels_});
        weight_ = of_features(parts, "weight", {labels_});
    }
    int64_t source_vocabulary() const override { return alphabet_ + wholes_; }
    int64_t target_vocabulary() const override { return labels_; }

  protected:
    int64_t alphabet_, wholes_, labels_;
    const Keys keys_;  // ascending
    const float *weight_, *bias_;

    // The numbers of all features, of this shape for each.
    const float* of_features(Parts& parts, const std::string& name, std::vector<int64_t> shape) const {
        shape.insert(shape.begin(), static_cast<int64_t>(keys_.size()));
        parts.tensor(name, shape);
        return parts.floats(name, shape);
    }

    MarkedRow row(const Batch& batch, int64_t b) const {
        return {batch.ids.data() + b * batch.longest, batch.lengths[b], alphabet_};
    }

    // The number of a feature; -1 if training lacks it.
    int64_t feature(Key key) const {
        const auto found = std::lower_bound(keys_.begin(), keys_.end(), key);
        return found != keys_.end() && *found == key ? found - keys_.begin() : -1;
    }

    void add(int64_t feature, float value, float* logits) const {
        for (int64_t v = 0; v < labels_; ++v) logits[v] += value * weight_[feature * labels_ + v];
    }
};

class LinearClassifier : public LinearLabeller {
  public:
    LinearClassifier(Parts& parts, const Json& notes)
        : LinearLabeller(parts, notes), words_(Range::read(notes, "words")), pieces_(Range::read(notes, "pieces")),
          apart_(notes.number_in("apart", 0, LARGEST_NUMBER)), unknown_(notes.truth_of("unknown")),
          rarity_(of_features(parts, "rarity", {})),
          rarest_(keys_.empty() ? 0 : *std::max_element(rarity_, rarity_ + keys_.size())) {}

    Places place(const Batch& batch) const override {
        const int64_t B = batch.sources();
        std::vector<float> logits;
        for (int64_t b = 0; b < B; ++b) {
            const MarkedRow own = row(batch, b);
            logits.insert(logits.end(), bias_, bias_ + labels_);
            add_bag(word_grams(own, words_, apart_), logits.data() + b * labels_);
            add_bag(piece_grams(own, pieces_), logits.data() + b * labels_);
        }
        return probable(std::vector<int64_t>(B, 1), 1, std::move(logits));
    }

  private:
    Range words_, pieces_;
    int64_t apart_;
    bool unknown_;  // n-grams that training lacks count in the norm, as the rarest one
    const float* rarity_;
    float rarest_;

    // The n-grams count by their number and their rarity, divided by the norm of all.
    void add_bag(const Keys& grams, float* logits) const {
        std::map<Key, int64_t> counts;  // in ascending order
        for (Key key : grams) ++counts[key];
        std::vector<std::pair<int64_t, float>> values;  // of the features
        float square = 0;
        for (const auto& each : counts) {
            const int64_t found = feature(each.first);
            if (found < 0 && !unknown_) continue;
            const float rarity = found < 0 ? rarest_ : rarity_[found];
            const float value = (1 + std::log(static_cast<float>(each.second))) * rarity;
            square += value * value;
            if (found >= 0) values.emplace_back(found, value);
        }
        for (const auto& each : values) add(each.first, each.second / std::sqrt(square), logits);
    }
};

class LinearTagger : public LinearLabeller {
  public:
    using LinearLabeller::LinearLabeller;

    Places place(const Batch& batch) const override {
        std::vector<std::vector<SpelledWord>> rows;
        std::vector<int64_t> lengths;
        for (int64_t b = 0; b < batch.sources(); ++b) {
            rows.push_back(spelled_words(row(batch, b)));
            lengths.push_back(static_cast<int64_t>(rows.back().size()));
        }
        const int64_t longest = std::max<int64_t>(1, *std::max_element(lengths.begin(), lengths.end()));
        std::vector<float> logits(rows.size() * longest * labels_);
        for (size_t b = 0; b < rows.size(); ++b)
            for (int64_t w = 0; w < lengths[b]; ++w) {
                float* own = logits.data() + (b * longest + w) * labels_;
                for (Key key : word_features(rows[b], w)) {
                    const int64_t found = feature(key);
                    if (found >= 0) add(found, 1, own);
                }
                for (int64_t v = 0; v < labels_; ++v) own[v] += bias_[v];
            }
        return probable(std::move(lengths), longest, std::move(logits));
    }
};

// A trained model and a linear one, mixed as p_model^(1 - weight) p_counted^weight / Z.
class LabelsWithCounts : public Labeller {
  public:
    LabelsWithCounts(std::unique_ptr<Labeller> model, std::unique_ptr<Labeller> counted, double weight)
        : model_(std::move(model)), counted_(std::move(counted)), weight_(static_cast<float>(weight)) {
        if (model_->target_vocabulary() != counted_->target_vocabulary() ||
            model_->source_vocabulary() != counted_->source_vocabulary() || model_->reads_signals())
            throw Refusal("its counts have vocabularies of other sizes");
    }
    int64_t source_vocabulary() const override { return model_->source_vocabulary(); }
    int64_t target_vocabulary() const override { return model_->target_vocabulary(); }
    int64_t most_positions() const override { return model_->most_positions(); }

    Places place(const Batch& batch) const override {
        Places found = model_->place(batch);
        const Places counted = counted_->place(batch);
        if (counted.lengths != found.lengths) throw Refusal("its counts give labels to other places");
        const int64_t V = target_vocabulary(), places = static_cast<int64_t>(found.lengths.size()) * found.longest;
        for (size_t b = 0; b < found.lengths.size(); ++b) {  // both have room for other numbers of places
            float* to = found.log_probs.data() + b * found.longest * V;
            const float* from = counted.log_probs.data() + b * counted.longest * V;
            for (int64_t i = 0; i < found.lengths[b] * V; ++i) to[i] = (1 - weight_) * to[i] + weight_ * from[i];
        }
        transduce_log_softmax(found.log_probs.data(), places, V, 0);
        return found;
    }

  private:
    std::unique_ptr<Labeller> model_, counted_;
    float weight_;
};

static std::unique_ptr<Labeller> read_trained(Parts& parts, const Json& notes) {
    if (notes.text_of("model") == "parallel-ensemble") return std::make_unique<LabelEnsemble>(parts, notes);
    return read_labeller(parts, notes);
}

// The trained model alone if nothing was counted.
static std::unique_ptr<Model> read_labels_with_counts(Parts& parts, const Json& notes) {
    const std::vector<Json>& members = notes.at("members").items;
    if (members.size() != 1) throw Refusal("members = " + notes.at("members").shown() + ": one model was expected");
    std::unique_ptr<Labeller> model = parts.within("0", [&] { return read_trained(parts, members[0]); });
    if (notes.find("counted") == nullptr) return model;
    const Json& counted = notes.table("counted");
    std::unique_ptr<Labeller> own = parts.within("counted", [&]() -> std::unique_ptr<Labeller> {
        if (counted.choice("model", {"linear-classifier", "linear-tagger"}))
            return std::make_unique<LinearTagger>(parts, counted);
        return std::make_unique<LinearClassifier>(parts, counted);
    });
    return std::make_unique<LabelsWithCounts>(std::move(model), std::move(own), notes.real_in("weight", 0, 1));
}

}  // namespace transduce

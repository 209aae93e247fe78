// What a search knows of a model: an encoder of ids, and a decoder whose rows read one token in each step.
//
// Letters: B sources, K hypotheses of each, N = B * K rows (those of a source are adjacent), S positions of the longest
// source, E width of an encoder's states, F of its summary, W of a decoder's features, V vocabulary.
#ifndef TRANSDUCE_MODEL_H
#define TRANSDUCE_MODEL_H

#include <algorithm>
#include <memory>
#include <vector>

#include "parts.h"
#include "phrases.h"

namespace transduce {

const int64_t PAD = 0, BOS = 1, EOS = 2, UNK = 3;  // the same ids in every vocabulary

// Throws Refusal for what a kernel refused, or bad_alloc.
void check(int64_t found);

// The steps of a signal: rows of `width` numbers, such as the columns of a picture.
struct Steps {
    int64_t width;
    std::vector<float> numbers;

    int64_t length() const { return static_cast<int64_t>(numbers.size()) / width; }
};

// What is wanted of the outputs of a source.
struct Wanted {
    std::vector<int64_t> prefix;                         // that they begin with
    std::vector<int64_t> listed;                         // the ids among which the search goes, in order; all if it is empty
    std::shared_ptr<const Phrases> forbidden, required;  // null if there are none
};

// The ids of B sources [B, longest], of which the first lengths[b] are real. Or the signals of B sources, lengths[b] steps
// each; then all ids are PAD, so that a reader of ids finds some.
struct Batch {
    std::vector<int64_t> ids, lengths;
    int64_t longest = 0;
    std::vector<const Steps*> signals;  // empty for ids
    std::vector<const Wanted*> wanted;  // of each source; empty if nothing is

    explicit Batch(const std::vector<const std::vector<int64_t>*>& rows);
    explicit Batch(std::vector<const Steps*> rows);
    int64_t sources() const { return static_cast<int64_t>(lengths.size()); }

    // The sources first to last - 1.
    Batch part(int64_t first, int64_t last) const;
};

// What an encoder made of a batch: states [B, S, E] with zeros past the end of a row, and a summary [B, F] of each source.
// `values` [B, S, E] is empty if they are the states.
struct Memory {
    std::vector<int64_t> lengths;
    int64_t longest, width;
    std::vector<float> states, values, summary;
    std::vector<int64_t> ids;  // of the batch, as in Batch

    int64_t sources() const { return static_cast<int64_t>(lengths.size()); }
    const float* read() const { return values.empty() ? states.data() : values.data(); }
};

class Encoder {
  public:
    virtual ~Encoder() = default;
    virtual Encoded sizes() const = 0;
    virtual int64_t most_positions() const { return ANY_POSITION; }
    virtual bool reads_signals() const { return false; }

    // Throws Refusal for a batch of ids if it reads signals, or the other way round.
    Memory operator()(const Batch& batch) const;

  protected:
    virtual Memory encode(const Batch& batch) const = 0;
};

// The state of a search: what a decoder remembers of the tokens that its rows have read. It belongs to one decoder.
class State {
  public:
    virtual ~State() = default;

    // Each row reads a token. Writes the features [N, W].
    virtual void step(const int64_t* tokens, float* features) = 0;

    // A source's only row becomes K equal ones.
    virtual void spread(int64_t hypotheses) = 0;

    // Row n goes on from the old row rows[n], one of the same source.
    virtual void follow(const std::vector<int64_t>& rows) = 0;

    // Only these sources stay, in this order, which is theirs.
    virtual void keep(const std::vector<int64_t>& sources) = 0;

    // The sources of another state of the same decoder follow, each with as many rows. The other state is lost.
    virtual void join(State& other) = 0;
};

class Decoder {
  public:
    virtual ~Decoder() = default;
    virtual int64_t vocabulary() const = 0;
    virtual int64_t most_positions() const { return ANY_POSITION; }

    // A state of one row for each source. At most `hypotheses` rows will come of it.
    virtual std::unique_ptr<State> start(const Memory& memory, int64_t hypotheses) const = 0;

    // The width W of the features, and the logits [N, V] of features [N, W].
    virtual int64_t width() const { return readout_->inputs; }
    virtual void read_out(const float* features, int64_t rows, float* logits) const {
        transduce::check(transduce_multiply(readout_, features, logits, rows, NONE));
    }

    // The matrix of which the logits are a product alone; null if they are not.
    const Matrix* readout() const { return readout_; }

  protected:
    const Matrix* readout_ = nullptr;
};

// How a memory becomes one vector for each source.
enum Pooling { LAST = 0, MAXIMUM = 1, MEAN = 2 };
Pooling read_pooling(const Json& notes);
int64_t pooled_width(Pooling pooling, const Encoded& sizes);
std::vector<float> pooled_by(Pooling pooling, const Memory& memory);

// The encoder and the decoder that a description names. Each family adds its lines in families.cpp of this folder.
std::unique_ptr<Encoder> read_encoder(Parts& parts, const Json& notes);
std::unique_ptr<Decoder> read_decoder(Parts& parts, const Json& notes, const Encoded& encoded);

// y [B, S, outputs] of the real positions of x [B, S, inputs], zeros elsewhere.
std::vector<float> of_real(const Matrix& matrix, const float* x, const std::vector<int64_t>& lengths, int64_t longest);

// Rows of `width` numbers: row n becomes the old row rows[n].
template <class T>
void gather(std::vector<T>& x, int64_t width, const std::vector<int64_t>& rows) {
    std::vector<T> found(rows.size() * width);
    for (size_t n = 0; n < rows.size(); ++n)
        std::copy(x.begin() + rows[n] * width, x.begin() + (rows[n] + 1) * width, found.begin() + n * width);
    x.swap(found);
}

// Rows of `from` numbers get `to` numbers: they lose what stands after these, or have zeros there.
template <class T>
void resize_rows(std::vector<T>& x, int64_t from, int64_t to) {
    if (from == to || x.empty()) return;
    const size_t rows = x.size() / from;
    std::vector<T> found(rows * to);
    for (size_t n = 0; n < rows; ++n) std::copy_n(x.begin() + n * from, std::min(from, to), found.begin() + n * to);
    x.swap(found);
}

// The rows of `other` follow those of x, and all of them get `width` numbers.
template <class T>
void append(std::vector<T>& x, int64_t x_width, std::vector<T>& other, int64_t other_width, int64_t width) {
    resize_rows(x, x_width, width);
    resize_rows(other, other_width, width);
    x.insert(x.end(), other.begin(), other.end());
}

// The rows of the sources that stay, if each has `each` rows.
std::vector<int64_t> rows_of(const std::vector<int64_t>& sources, int64_t each);

// The rows [B * K] that repeat each of B rows K times.
std::vector<int64_t> repeated(int64_t sources, int64_t hypotheses);

}  // namespace transduce

#endif

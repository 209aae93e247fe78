// The C interface: opens a file, and answers batches of texts or ids. engine.h explains it.

#include "engine.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <numeric>
#include <utility>

#include "file.h"
#include "models.h"
#include "refusal.h"
#include "search.h"
#include "signals.h"
#include "texts.h"

using namespace transduce;

const int64_t BATCH = 8;                    // more are no faster, and take more memory
const int64_t MOST_SOURCES = 1 << 24;       // in a call
const double LIKELY = -0.6931471805599453;  // log 0.5: an end at the limit that is more probable is the model's own

// The target words that go with the words of a source (wings/counted/shortlist.py): some for each id, and those of every list.
struct Shortlist {
    std::vector<uint16_t> best, always;
    int64_t each;

    Shortlist(const Parts& parts, int64_t each, int64_t sources, int64_t targets)
        : best(parts.small_numbers("shortlist.best", each * sources)), always(parts.small_numbers("shortlist.always", ANY)),
          each(each) {
        for (const auto* some : {&best, &always})
            for (uint16_t id : *some)
                if (id >= targets) throw Refusal("its shortlist has words of another vocabulary");
        for (size_t id = 0; id <= UNK; ++id)
            if (id >= always.size() || always[id] != id) throw Refusal("its shortlist lacks the special tokens");
    }

    // The ids among which the search goes, in order.
    std::vector<int64_t> of(const std::vector<int64_t>& source, const std::vector<int64_t>& prefix) const {
        std::vector<int64_t> found(always.begin(), always.end());
        for (int64_t id : source) found.insert(found.end(), best.begin() + id * each, best.begin() + (id + 1) * each);
        found.insert(found.end(), prefix.begin(), prefix.end());
        std::sort(found.begin(), found.end());
        found.erase(std::unique(found.begin(), found.end()), found.end());
        return found;
    }
};

struct TransduceEngine {
    // The order is that of the construction: each needs those before it.
    std::map<std::string, std::string> notes;
    Parts parts;
    Tokenizer source, target;
    Options options;
    int64_t max_source_length;
    bool keeps_empty;
    std::unique_ptr<SignalReader> signals;  // null unless the sources are signals
    std::unique_ptr<Model> model;
    std::unique_ptr<const Shortlist> shortlist;  // null if it has none

    TransduceEngine(const File& file, const Json& limits)
        : notes(file.notes), parts(file), source(file.json("source")), target(file.json("target")),
          options(Options::read(file.json("search"))),
          max_source_length(limits.number_in("max_source_length", 1, MOST_SOURCES)),
          keeps_empty(limits.truth_of("keeps_empty")) {
        if (source.is_signal()) signals = SignalReader::read(file.json("source"));
        model = read_model(parts, file.json("model"));
        if (!has(options.kind)) throw Refusal("its search does not fit its model: export the run again");
        if ((source.is_signal() != model->reads_signals() && source.size()) || (model->reads_signals() && options.listed))
            throw Refusal("its tokenizers do not fit its model: export the run again");
        check_vocabulary("source", source, model->source_vocabulary());
        check_vocabulary("target", target, model->target_vocabulary());
        if (options.listed)
            shortlist =
                std::make_unique<Shortlist>(parts, options.listed, model->source_vocabulary(), model->target_vocabulary());
        parts.done();
    }

    bool has(Options::Kind kind) const {
        const std::vector<Options::Kind> fitting = model->searches();
        return std::find(fitting.begin(), fitting.end(), kind) != fitting.end();
    }

    static void check_vocabulary(const char* side, const Tokenizer& tokenizer, int64_t vocabulary) {
        if (tokenizer.size() && tokenizer.size() != vocabulary)
            throw Refusal(std::string("the ") + side + " vocabulary has " + std::to_string(tokenizer.size()) +
                          " entries, and the model has " + std::to_string(vocabulary) + " vectors");
    }
};

namespace {

typedef std::vector<int64_t> Row;

// The answers, and the memory that the structure points to.
struct Kept {
    TransduceAnswers answers;
    std::vector<int64_t> output_ends, text_ends, token_ends, tokens, source_tokens, read_tokens, unknown, cut, choices, keys;
    std::string texts;
    std::vector<double> token_log_probs, log_prob, score, choice_log_probs;

    // Adds an output; its text is that of `written`.
    void add(const Tokenizer& target, const Hypothesis& output, const Row& written, int64_t limit) {
        texts += target.decode(written);
        text_ends.push_back(static_cast<int64_t>(texts.size()));
        tokens.insert(tokens.end(), output.tokens.begin(), output.tokens.end());
        token_log_probs.insert(token_log_probs.end(), output.log_probs.begin(), output.log_probs.end());
        token_ends.push_back(static_cast<int64_t>(tokens.size()));
        choices.insert(choices.end(), output.choices.begin(), output.choices.end());
        choices.resize(tokens.size(), -1);
        choice_log_probs.insert(choice_log_probs.end(), output.choice_log_probs.begin(), output.choice_log_probs.end());
        choice_log_probs.resize(tokens.size());
        log_prob.push_back(output.log_prob);
        score.push_back(output.score);
        const bool at_limit = limit && static_cast<int64_t>(output.tokens.size()) >= limit && output.log_probs.back() <= LIKELY;
        cut.push_back(at_limit ? limit : 0);
    }

    // The outputs since the last call are those of a source with these numbers of tokens.
    void end_source(int64_t all, int64_t read, int64_t strange) {
        source_tokens.push_back(all);
        read_tokens.push_back(read);
        unknown.push_back(strange);
        output_ends.push_back(static_cast<int64_t>(text_ends.size()));
    }

    void publish() {
        answers = {static_cast<int64_t>(output_ends.size()), static_cast<int64_t>(text_ends.size()), output_ends.data(),
            text_ends.data(), token_ends.data(), tokens.data(), texts.c_str(), token_log_probs.data(), log_prob.data(),
            score.data(), source_tokens.data(), read_tokens.data(), unknown.data(), cut.data(), choices.data(),
            choice_log_probs.data(), keys.data()};
    }
};

// Runs a piece of work. If it throws, writes why into the message and returns null.
template <class Work>
auto told(char* message, uint64_t room, const Work& work) -> decltype(work()) {
    std::string why;
    try {
        return work();
    } catch (const Refusal& refusal) {
        why = refusal.what();
    } catch (const std::exception&) {  // bad_alloc, or the length_error of a size that no memory has
        why = "the engine got no memory from the system; use smaller batches or a smaller beam";
    }
    if (room) {
        const size_t count = std::min<size_t>(room - 1, why.size());
        std::memcpy(message, why.data(), count);
        message[count] = '\0';
    }
    return nullptr;
}

std::vector<Row> rows_of_ids(const int64_t* ids, const int64_t* ends, int64_t count) {
    if (count < 0 || count > MOST_SOURCES)
        throw Refusal(std::to_string(count) + " sources: 0 to " + std::to_string(MOST_SOURCES) + " were expected");
    std::vector<Row> found;
    for (int64_t b = 0, first = 0; b < count; first = ends[b++]) {
        if (ends[b] <= first || ids[ends[b] - 1] != EOS)
            throw Refusal("input " + std::to_string(b + 1) + ": a row of ids that ends with </s> (2) was expected");
        found.emplace_back(ids + first, ids + ends[b]);
    }
    return found;
}

// The sources of the places first to last - 1, as one batch.
template <class Source>
Batch batch_of(const std::vector<Source>& sources, const std::vector<size_t>& places, size_t first, size_t last) {
    std::vector<const Source*> some;
    for (size_t i = first; i < last; ++i) some.push_back(&sources[places[i]]);
    return Batch(std::move(some));
}

// The rows as the model reads them, and what is wanted for each. Writes the answers into `kept`.
struct Asked {
    const TransduceEngine& engine;
    std::vector<Row> rows;
    std::vector<bool> empty;   // rows whose output is empty
    std::vector<Row> targets;  // to be scored; empty if outputs are searched for
    Options options;
    int64_t batch;
    std::vector<Wanted> wanted = {};  // of the outputs of each source; empty if nothing is
    std::vector<Steps> signals = {};  // in place of the rows; empty if the sources are ids

    size_t count() const { return signals.empty() ? rows.size() : signals.size(); }
    int64_t length(size_t b) const { return signals.empty() ? static_cast<int64_t>(rows[b].size()) : signals[b].length(); }

    void check_wanted() const {
        const bool by_tokens =
            options.kind == Options::GREEDY || options.kind == Options::BEAM || options.kind == Options::SAMPLING;
        if (!wanted.empty() && !by_tokens)
            throw Refusal("prefixes, phrases and lists need a search that writes token by token");
        const int64_t V = engine.model->target_vocabulary();
        for (const Wanted& each : wanted) {
            if (static_cast<int64_t>(each.prefix.size()) >= options.max_length)
                throw Refusal("a prefix of " + std::to_string(each.prefix.size()) +
                              " tokens and the end do not fit max_length = " + std::to_string(options.max_length));
            for (int64_t id : each.prefix)
                if (id <= EOS || id >= V) throw Refusal("id " + std::to_string(id) + " cannot stand in a prefix");
            for (int64_t i = 0; i < static_cast<int64_t>(each.listed.size()); ++i)
                if (each.listed[i] >= V || each.listed[i] < i ||
                    (i <= UNK ? each.listed[i] != i : each.listed[i] <= each.listed[i - 1]))
                    throw Refusal("id " + std::to_string(each.listed[i]) + " cannot stand at this place in a list");
            if (!each.listed.empty() && each.listed.size() <= UNK) throw Refusal("a list lacks the special tokens");
            for (int64_t id : each.prefix)
                if (!each.listed.empty() && !std::binary_search(each.listed.begin(), each.listed.end(), id))
                    throw Refusal("a list lacks an id of its prefix");
            if ((options.listed || !each.listed.empty()) && (each.forbidden || each.required))
                throw Refusal("phrases need a search without a shortlist");
            if (each.required && options.kind != Options::BEAM)
                throw Refusal("required phrases need hypotheses to choose among: use a beam");
        }
    }

    // Gives each row its list of the file's shortlist, after it was cut.
    void add_lists() {
        if (!options.listed) return;
        wanted.resize(rows.size());
        for (size_t b = 0; b < rows.size(); ++b)
            if (wanted[b].listed.empty()) wanted[b].listed = engine.shortlist->of(rows[b], wanted[b].prefix);
    }

    // Cuts each signal that is too long. Returns the lengths before.
    std::vector<int64_t> cut_signals() {
        const int64_t most = engine.model->most_positions();
        std::vector<int64_t> lengths;
        for (Steps& each : signals) {
            lengths.push_back(each.length());
            if (lengths.back() > engine.max_source_length) each.numbers.resize(engine.max_source_length * each.width);
            if (each.length() > most)
                throw Refusal("input " + std::to_string(lengths.size()) + ": a signal of " + std::to_string(each.length()) +
                              " steps: the model reads at most " + std::to_string(most));
        }
        return lengths;
    }

    // The same for rows.
    std::vector<int64_t> cut_rows() {
        const int64_t most = engine.model->most_positions(), vocabulary = engine.model->source_vocabulary();
        std::vector<int64_t> lengths;
        for (size_t b = 0; b < rows.size(); ++b) {
            Row& row = rows[b];
            lengths.push_back(static_cast<int64_t>(row.size()));
            if (lengths.back() > engine.max_source_length) {
                row.resize(static_cast<size_t>(engine.max_source_length));
                row.back() = EOS;
            }
            const std::string input = "input " + std::to_string(b + 1) + ": ";
            if (static_cast<int64_t>(row.size()) > most)
                throw Refusal(input + "a text of " + std::to_string(row.size()) + " tokens: the model has positions for " +
                              std::to_string(most));
            for (int64_t id : row)
                if (id < 0 || id >= vocabulary)
                    throw Refusal(
                        input + "id " + std::to_string(id) + " is outside a vocabulary of " + std::to_string(vocabulary));
        }
        return lengths;
    }

    // Sources of similar length share a batch: those of `places`, the longest first. Each has its place in `outputs`, or is
    // searched for if there are none.
    void answer_some(std::vector<size_t> places, const std::vector<Row>& outputs, Found& found) const {
        std::stable_sort(places.begin(), places.end(), [&](size_t a, size_t b) { return length(a) > length(b); });
        for (size_t first = 0; first < places.size(); first += static_cast<size_t>(batch)) {
            const size_t last = std::min(places.size(), first + static_cast<size_t>(batch));
            Targets given;
            for (size_t i = first; i < last && !outputs.empty(); ++i) given.push_back(&outputs[places[i]]);
            Batch together = signals.empty() ? batch_of(rows, places, first, last) : batch_of(signals, places, first, last);
            for (size_t i = first; i < last && !wanted.empty(); ++i) together.wanted.push_back(&wanted[places[i]]);
            Found part = outputs.empty() ? engine.model->search(together, options) : engine.model->score(together, given);
            for (size_t i = first; i < last; ++i) found[places[i]] = std::move(part[i - first]);
        }
    }

    Found find() const {
        Found found(count());
        std::vector<size_t> full, blank;
        for (size_t b = 0; b < count(); ++b) (empty[b] ? blank : full).push_back(b);
        answer_some(full, targets, found);
        answer_some(blank, std::vector<Row>(count(), Row(1, EOS)), found);
        return found;
    }

    const TransduceAnswers* answer() {
        std::unique_ptr<Kept> kept(new Kept());
        if (batch < 0) throw Refusal("batch = " + std::to_string(batch) + ": 1 or more was expected");
        batch = batch ? batch : BATCH;
        check_wanted();
        const std::vector<int64_t> lengths = signals.empty() ? cut_rows() : cut_signals();
        add_lists();
        const Found found = find();
        for (size_t b = 0; b < found.size(); ++b) {
            if (found[b].empty())
                throw Refusal("input " + std::to_string(b + 1) + ": the model's numbers are not finite, so it has no output");
            const int64_t read = length(b), limit = targets.empty() && !empty[b] ? options.longest(read) : 0;
            for (const Hypothesis& each : found[b]) kept->add(engine.target, each, each.tokens, limit);
            kept->end_source(lengths[b], read, signals.empty() ? std::count(rows[b].begin(), rows[b].end(), UNK) : 0);
        }
        kept->publish();
        return &kept.release()->answers;
    }
};

// The steps of signals. Throws Refusal for a wrong one, and if the sources are none.
std::vector<Steps> steps_of(const TransduceEngine& engine, const TransduceSignal* signals, int64_t count) {
    if (!engine.model->reads_signals()) throw Refusal("its sources are no signals");
    if (count < 0 || count > MOST_SOURCES)
        throw Refusal(std::to_string(count) + " sources: 0 to " + std::to_string(MOST_SOURCES) + " were expected");
    std::vector<Steps> found;
    for (int64_t b = 0; b < count; ++b) {
        try {
            found.push_back(read_steps(engine.signals.get(), engine.model->source_vocabulary(), signals[b]));
        } catch (const Refusal& refusal) {
            throw Refusal("input " + std::to_string(b + 1) + ": " + refusal.what());
        }
    }
    return found;
}

// What is wanted of the outputs of `count` sources; empty if nothing is.
std::vector<Wanted> read_wanted(const TransduceEngine& engine, const TransduceWanted* given, int64_t count) {
    const int64_t V = engine.model->target_vocabulary();
    std::vector<Wanted> found(given == nullptr ? 0 : count);
    const auto each_row = [&](const int64_t* numbers, const int64_t* ends, const auto& read) {
        for (int64_t b = 0, first = 0; b < count && ends != nullptr; first = ends[b++]) {
            const int64_t size = std::max<int64_t>(0, ends[b] - first);
            if (size) read(found[b], numbers + first, size);
        }
    };
    if (given == nullptr) return found;
    const auto borders = std::make_shared<const Borders>(given->borders, given->borders + (given->borders ? V : 0));
    const auto phrases = [&](const int64_t* numbers, int64_t size) {
        return std::make_shared<const Phrases>(numbers, size, V, borders);
    };
    each_row(given->prefix_ids, given->prefix_ends,
        [](Wanted& own, const int64_t* ids, int64_t size) { own.prefix.assign(ids, ids + size); });
    each_row(given->listed, given->listed_ends,
        [](Wanted& own, const int64_t* ids, int64_t size) { own.listed.assign(ids, ids + size); });
    each_row(given->forbidden, given->forbidden_ends,
        [&](Wanted& own, const int64_t* numbers, int64_t size) { own.forbidden = phrases(numbers, size); });
    each_row(given->required, given->required_ends,
        [&](Wanted& own, const int64_t* numbers, int64_t size) { own.required = phrases(numbers, size); });
    return found;
}

// The file's search with these options, or another one. Throws Refusal for a search that does not fit the model.
Options options_of(const TransduceEngine& engine, const char* search, uint64_t size, const TransduceOptions& options) {
    if (search == nullptr) return engine.options.resized(options.beam, options.nbest);
    const Options found = Options::read(Json::parse(search, size));
    if (found.listed && found.listed != engine.options.listed) throw Refusal("the file has no shortlist of this size");
    if (!engine.has(found.kind)) throw Refusal("the search does not fit the model");
    return found;
}

std::vector<Row> encoded(const Tokenizer& tokenizer, const char* texts, const int64_t* ends, int64_t count) {
    std::vector<Row> found;
    for (int64_t b = 0, first = 0; b < count; first = ends[b++]) {
        try {
            found.push_back(tokenizer.encode(std::string(texts + first, texts + std::max(first, ends[b]))));
        } catch (const Refusal& refusal) {
            throw Refusal("input " + std::to_string(b + 1) + ": " + refusal.what());
        }
    }
    return found;
}

// The rows with their texts, each as the only output of a source, as if all had the log-probability 0.
const TransduceAnswers* without_scores(const Tokenizer& tokenizer, const std::vector<Row>& rows) {
    std::unique_ptr<Kept> kept(new Kept());
    for (const Row& ids : rows) {
        kept->add(tokenizer, {ids, std::vector<double>(ids.size()), 0, 0}, ids, 0);
        kept->end_source(1, 1, std::count(ids.begin(), ids.end(), UNK));
    }
    kept->publish();
    return &kept.release()->answers;
}

}  // namespace

int32_t transduce_engine_version() { return TRANSDUCE_ENGINE_VERSION; }

TransduceEngine* transduce_engine_open(const void* bytes, uint64_t size, char* message, uint64_t room) {
    return told(message, room, [=] {
        const File file(static_cast<const uint8_t*>(bytes), size);
        return new TransduceEngine(file, file.json("limits"));
    });
}

void transduce_engine_close(TransduceEngine* engine) { delete engine; }

const char* transduce_engine_note(const TransduceEngine* engine, const char* name, uint64_t* size) {
    const auto found = engine->notes.find(name);
    if (found == engine->notes.end()) return nullptr;
    *size = found->second.size();
    return found->second.c_str();
}

const TransduceAnswers* transduce_engine_answer(const TransduceEngine* engine, const char* texts, const int64_t* ends,
    int64_t count, TransduceOptions options, char* message, uint64_t room) {
    return told(message, room, [=]() -> const TransduceAnswers* {
        if (count < 0 || count > MOST_SOURCES)
            throw Refusal(std::to_string(count) + " sources: 0 to " + std::to_string(MOST_SOURCES) + " were expected");
        Asked asked = {*engine, {}, {}, {}, engine->options.resized(options.beam, options.nbest), options.batch};
        for (int64_t b = 0, first = 0; b < count; first = ends[b++]) {
            const std::string text(texts + first, texts + std::max(first, ends[b]));
            try {
                asked.rows.push_back(engine->source.encode(text));
                asked.empty.push_back(!engine->keeps_empty && is_blank(text));
            } catch (const Refusal& refusal) {
                throw Refusal("input " + std::to_string(b + 1) + ": " + refusal.what());
            }
        }
        return asked.answer();
    });
}

const TransduceAnswers* transduce_engine_answer_ids(const TransduceEngine* engine, const int64_t* ids, const int64_t* ends,
    int64_t count, TransduceOptions options, char* message, uint64_t room) {
    return told(message, room, [=] {
        std::vector<Row> rows = rows_of_ids(ids, ends, count);
        Asked asked = {*engine, std::move(rows), std::vector<bool>(count), {},
            engine->options.resized(options.beam, options.nbest), options.batch};
        return asked.answer();
    });
}

const TransduceAnswers* transduce_engine_search_ids(const TransduceEngine* engine, const char* search, uint64_t size,
    const int64_t* ids, const int64_t* ends, const TransduceWanted* wanted, int64_t count, TransduceOptions options,
    char* message, uint64_t room) {
    return told(message, room, [=] {
        std::vector<Row> rows = rows_of_ids(ids, ends, count);
        Asked asked = {*engine, std::move(rows), std::vector<bool>(count), {}, options_of(*engine, search, size, options),
            options.batch, read_wanted(*engine, wanted, count)};
        return asked.answer();
    });
}

const TransduceAnswers* transduce_engine_score_ids(const TransduceEngine* engine, const int64_t* ids, const int64_t* ends,
    const int64_t* target_ids, const int64_t* target_ends, int64_t count, TransduceOptions options, char* message,
    uint64_t room) {
    return told(message, room, [=] {
        std::vector<Row> rows = rows_of_ids(ids, ends, count), targets = rows_of_ids(target_ids, target_ends, count);
        Asked asked = {*engine, std::move(rows), std::vector<bool>(count), std::move(targets), engine->options, options.batch};
        return asked.answer();
    });
}

const TransduceAnswers* transduce_engine_search_signals(const TransduceEngine* engine, const char* search, uint64_t size,
    const TransduceSignal* signals, const TransduceWanted* wanted, int64_t count, TransduceOptions options, char* message,
    uint64_t room) {
    return told(message, room, [=]() -> const TransduceAnswers* {
        Asked asked = {*engine, {}, std::vector<bool>(count), {}, options_of(*engine, search, size, options), options.batch,
            read_wanted(*engine, wanted, count), steps_of(*engine, signals, count)};
        return asked.answer();
    });
}

const TransduceAnswers* transduce_engine_score_signals(const TransduceEngine* engine, const TransduceSignal* signals,
    const int64_t* target_ids, const int64_t* target_ends, int64_t count, TransduceOptions options, char* message,
    uint64_t room) {
    return told(message, room, [=]() -> const TransduceAnswers* {
        std::vector<Steps> steps = steps_of(*engine, signals, count);
        Asked asked = {*engine, {}, std::vector<bool>(count), rows_of_ids(target_ids, target_ends, count), engine->options,
            options.batch, {}, std::move(steps)};
        return asked.answer();
    });
}

const TransduceAnswers* transduce_engine_encode(
    const TransduceEngine* engine, const char* texts, const int64_t* ends, int64_t count, char* message, uint64_t room) {
    return told(message, room, [=] { return without_scores(engine->target, encoded(engine->target, texts, ends, count)); });
}

const TransduceAnswers* transduce_engine_encode_sources(
    const TransduceEngine* engine, const char* texts, const int64_t* ends, int64_t count, char* message, uint64_t room) {
    return told(message, room, [=] { return without_scores(engine->source, encoded(engine->source, texts, ends, count)); });
}

const TransduceAnswers* transduce_engine_decode(
    const TransduceEngine* engine, const int64_t* ids, const int64_t* ends, int64_t count, char* message, uint64_t room) {
    return told(message, room, [=] { return without_scores(engine->target, rows_of_ids(ids, ends, count)); });
}

const TransduceAnswers* transduce_engine_generate_ids(
    const TransduceEngine* engine, const int64_t* ids, int64_t count, TransduceSampling how, char* message, uint64_t room) {
    return told(message, room, [=]() -> const TransduceAnswers* {
        const Row prompt(ids, ids + std::max<int64_t>(0, count));
        for (int64_t id : prompt)
            if (id <= EOS || id >= engine->model->target_vocabulary())
                throw Refusal("id " + std::to_string(id) + " cannot stand in a prompt");
        const Options options = Options::of_samples(how.samples, how.length, how.temperature, how.top_k, how.top_p, how.seed);
        std::unique_ptr<Kept> kept(new Kept());
        for (const Hypothesis& each : engine->model->generate(prompt, options)) {
            Row written = prompt;
            written.insert(written.end(), each.tokens.begin(), each.tokens.end());
            kept->add(engine->target, each, written, 0);
        }
        kept->end_source(1, 1, std::count(prompt.begin(), prompt.end(), UNK));
        kept->publish();
        return &kept.release()->answers;
    });
}

// ---------------------------------------------------------------- sources that enter and leave a search

struct TransduceRunning {
    // What is told of a source beside its outputs.
    struct Entered {
        int64_t all, read, unknown;
    };

    // A source that starts with the next step, so that whoever adds it does not wait for the model.
    struct Waiting {
        int64_t key;
        Row row;
        Wanted wanted;
    };

    const TransduceEngine& engine;
    const Options options;
    const std::unique_ptr<Search> search;
    std::map<int64_t, Entered> entered;
    std::vector<Waiting> waiting;

    TransduceRunning(const TransduceEngine& engine, const Options& options)
        : engine(engine), options(options), search(engine.model->begin(options)) {}

    void step() {
        if (!waiting.empty()) start(std::exchange(waiting, {}));
        search->step();
    }

    void start(const std::vector<Waiting>& sources) {
        std::vector<int64_t> keys;
        Targets rows;
        for (const Waiting& each : sources) {
            keys.push_back(each.key);
            rows.push_back(&each.row);
        }
        Batch batch(rows);
        for (const Waiting& each : sources) batch.wanted.push_back(&each.wanted);
        search->enter(batch, keys);
    }

    void drop(const std::vector<int64_t>& keys) {
        const auto dropped = [&](const Waiting& each) { return std::find(keys.begin(), keys.end(), each.key) != keys.end(); };
        waiting.erase(std::remove_if(waiting.begin(), waiting.end(), dropped), waiting.end());
        search->drop(keys);
        for (int64_t key : keys) entered.erase(key);
    }
};

TransduceRunning* transduce_engine_begin(
    const TransduceEngine* engine, TransduceOptions options, char* message, uint64_t room) {
    return told(
        message, room, [=] { return new TransduceRunning(*engine, engine->options.resized(options.beam, options.nbest)); });
}

void transduce_engine_end(TransduceRunning* running) { delete running; }

TransduceRunning* transduce_engine_enter(TransduceRunning* running, const int64_t* keys, const int64_t* ids,
    const int64_t* ends, const TransduceWanted* wanted, int64_t count, char* message, uint64_t room) {
    return told(message, room, [=] {
        Asked asked = {running->engine, rows_of_ids(ids, ends, count), std::vector<bool>(count), {}, running->options, 0,
            read_wanted(running->engine, wanted, count)};
        asked.check_wanted();
        const std::vector<int64_t> lengths = asked.cut_rows();
        asked.add_lists();
        asked.wanted.resize(count);
        for (int64_t b = 0; b < count; ++b) {
            Row& row = asked.rows[b];
            running->entered[keys[b]] = {lengths[b], static_cast<int64_t>(row.size()), std::count(row.begin(), row.end(), UNK)};
            running->waiting.push_back({keys[b], std::move(row), std::move(asked.wanted[b])});
        }
        return running;
    });
}

const TransduceAnswers* transduce_engine_step(
    TransduceRunning* running, int64_t ended, int64_t most, char* message, uint64_t room) {
    return told(message, room, [=]() -> const TransduceAnswers* {
        running->step();
        for (int64_t step = 1; step < most && running->search->ended() < ended && running->search->searching(); ++step)
            running->step();
        std::unique_ptr<Kept> kept(new Kept());
        for (const auto& each : running->search->take_ended()) {
            const TransduceRunning::Entered& source = running->entered.at(each.first);
            for (const Hypothesis& one : each.second)
                kept->add(running->engine.target, one, one.tokens, running->options.longest(source.read));
            kept->end_source(source.all, source.read, source.unknown);
            kept->keys.push_back(each.first);
            running->entered.erase(each.first);
        }
        kept->publish();
        return &kept.release()->answers;
    });
}

void transduce_engine_drop(TransduceRunning* running, const int64_t* keys, int64_t count) {
    running->drop(std::vector<int64_t>(keys, keys + count));
}

void transduce_engine_free(const TransduceAnswers* answers) {
    delete reinterpret_cast<Kept*>(const_cast<TransduceAnswers*>(answers));  // the structure is its first member
}

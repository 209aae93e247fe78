/* The C interface of the engine: a model from one file answers texts. docs/engine.md has an example.
 *
 * An engine may be used by several threads at once. Functions that return a pointer return null if something is wrong,
 * and write why into `message`, which has `room` bytes: one line that ends with a zero. */
#ifndef TRANSDUCE_ENGINE_H
#define TRANSDUCE_ENGINE_H

#include <stdint.h>

#ifdef __cplusplus
#define TRANSDUCE_EXPORT extern "C" __attribute__((visibility("default")))
#else
#define TRANSDUCE_EXPORT
#endif

/* The version of this interface. Raise it with every change of a structure or of a function's arguments, here and in
 * src/transduce_engine/library.py, which refuses a library of another version. */
#define TRANSDUCE_ENGINE_VERSION 7

typedef struct TransduceEngine TransduceEngine;
typedef struct TransduceRunning TransduceRunning; /* a search that sources enter and leave between its steps */

/* What is wanted; 0 stands for what the run's own search has. `batch` is the number of sources that are searched
 * together: it changes no result. */
typedef struct {
    int64_t beam, nbest, batch;
} TransduceOptions;

/* How a language model draws: tokens from the `top_k` most probable ones, and from the most probable ones that have the
 * probability `top_p` together; 0 stands for all. */
typedef struct {
    int64_t samples, length, top_k, seed;
    double temperature, top_p;
} TransduceSampling;

/* A source that is a signal. A recording has `rows` moments, `rate` in a second, of `channels` adjacent samples, and one
 * column. A picture has rows * columns pixels, the upper rows first, of `channels` adjacent bytes: 1 (grey) or 3 (red, green,
 * blue). `type` says what the numbers are: 0 bytes, 1 integers of 16 bits, 2 float32 samples of -1 to 1. Type 3 are steps that
 * are already made as in training: float32 [rows, columns], with one channel. */
typedef struct {
    const void* numbers;
    int64_t type, rows, columns, channels, rate;
} TransduceSignal;

/* What is wanted of the outputs of each source, in rows: row b ends at ends[b] and begins where the one before ends, and there
 * are none if its ends are null. A prefix is ids that the output begins with, without EOS. `listed` are the ids among which the
 * search goes, in order: the special ones and those of the prefix are there; an empty row stands for all.
 *
 * Forbidden and required phrases are automata over tokens: 0 numbers if there are none, or Q; then for each of Q states four
 * numbers: whether a phrase is complete here (0 or 1), whether it is if its last word does not go on, the state in which this
 * phrase is complete, and how many of its tokens are written; then for each edge four numbers: a state, the id of a token (-2:
 * any that ends the word before it, -1: none), the next state, and whether it is of the tokenizer's own spelling. State 0 is
 * always active, and state 1 where no word goes on. `borders` has the bits of each id: 1 if it ends the word before it, 2 if no
 * word goes on after it; null if tokens mark no words. */
typedef struct {
    const int64_t *prefix_ids, *prefix_ends, *listed, *listed_ends;
    const int64_t *forbidden, *forbidden_ends, *required, *required_ends;
    const uint8_t* borders;
} TransduceWanted;

/* Answers to `sources` sources, each with at least one output, best first; the free function takes them back. Source b has the
 * outputs output_ends[b - 1] to output_ends[b] - 1 (0 stands before the first). Output i has the text from text_ends[i - 1]
 * to text_ends[i] - 1 in UTF-8, and in the same way the ids of its tokens, EOS included, with their log-probabilities.
 * `log_prob` is their sum, and `score` is what the search ranked by. `source_tokens` is the length of each source in
 * tokens, of which the model read the first `read_tokens`; `unknown` of these were not in its vocabulary. `cut` is the
 * number of tokens at which the search ended an output that the model had not ended; 0 if the model ended it. A given output
 * has the model's first choice at each of its tokens, and the choice's log-probability; the choice is -1 where the model has
 * none, such as an end that follows from the source, and in all other outputs. `keys` are those of the sources that have left a
 * running search. */
typedef struct {
    int64_t sources, outputs;
    const int64_t *output_ends, *text_ends, *token_ends, *tokens;
    const char* texts;
    const double *token_log_probs, *log_prob, *score;
    const int64_t *source_tokens, *read_tokens, *unknown, *cut, *choices;
    const double* choice_log_probs;
    const int64_t* keys;
} TransduceAnswers;

TRANSDUCE_EXPORT int32_t transduce_engine_version(void);

/* The model in a file of `size` bytes, which may go when the function has returned. */
TRANSDUCE_EXPORT TransduceEngine* transduce_engine_open(const void* bytes, uint64_t size, char* message, uint64_t room);
TRANSDUCE_EXPORT void transduce_engine_close(TransduceEngine* engine);

/* A text of the file, such as "card" or "settings", with its size; null if the file has none of this name. */
TRANSDUCE_EXPORT const char* transduce_engine_note(const TransduceEngine* engine, const char* name, uint64_t* size);

/* Answers texts in UTF-8: text b ends at the byte ends[b] of `texts`, and begins where the one before ends. Needs a source
 * tokenizer of the engine's own. */
TRANSDUCE_EXPORT const TransduceAnswers* transduce_engine_answer(const TransduceEngine* engine, const char* texts,
    const int64_t* ends, int64_t count, TransduceOptions options, char* message, uint64_t room);

/* The same for rows of ids, which end with EOS. */
TRANSDUCE_EXPORT const TransduceAnswers* transduce_engine_answer_ids(const TransduceEngine* engine, const int64_t* ids,
    const int64_t* ends, int64_t count, TransduceOptions options, char* message, uint64_t room);

/* The same with what is wanted of outputs, which may be null. If `search` is not null, it is another search: a run's table
 * `search` with all defaults, JSON of `size` bytes; then `beam` and `nbest` count for nothing. */
TRANSDUCE_EXPORT const TransduceAnswers* transduce_engine_search_ids(const TransduceEngine* engine, const char* search,
    uint64_t size, const int64_t* ids, const int64_t* ends, const TransduceWanted* wanted, int64_t count,
    TransduceOptions options, char* message, uint64_t room);

/* The same for signals. */
TRANSDUCE_EXPORT const TransduceAnswers* transduce_engine_search_signals(const TransduceEngine* engine, const char* search,
    uint64_t size, const TransduceSignal* signals, const TransduceWanted* wanted, int64_t count, TransduceOptions options,
    char* message, uint64_t room);

/* Scores given outputs, rows of ids that end with EOS: one output for each source. */
TRANSDUCE_EXPORT const TransduceAnswers* transduce_engine_score_ids(const TransduceEngine* engine, const int64_t* ids,
    const int64_t* ends, const int64_t* target_ids, const int64_t* target_ends, int64_t count, TransduceOptions options,
    char* message, uint64_t room);

/* Scores given outputs of signals, as transduce_engine_score_ids does. */
TRANSDUCE_EXPORT const TransduceAnswers* transduce_engine_score_signals(const TransduceEngine* engine,
    const TransduceSignal* signals, const int64_t* target_ids, const int64_t* target_ends, int64_t count,
    TransduceOptions options, char* message, uint64_t room);

/* The ids of outputs in UTF-8, EOS at their ends; their log-probabilities are 0. Needs a target tokenizer of the engine's
 * own. */
TRANSDUCE_EXPORT const TransduceAnswers* transduce_engine_encode(
    const TransduceEngine* engine, const char* texts, const int64_t* ends, int64_t count, char* message, uint64_t room);

/* The same for sources. Needs a source tokenizer of the engine's own. */
TRANSDUCE_EXPORT const TransduceAnswers* transduce_engine_encode_sources(
    const TransduceEngine* engine, const char* texts, const int64_t* ends, int64_t count, char* message, uint64_t room);

/* The texts of outputs, rows of ids that end with EOS; their log-probabilities are 0. Needs a target tokenizer of the
 * engine's own. */
TRANSDUCE_EXPORT const TransduceAnswers* transduce_engine_decode(
    const TransduceEngine* engine, const int64_t* ids, const int64_t* ends, int64_t count, char* message, uint64_t room);

/* Samples of a language model that go on with a prompt, `count` ids without EOS: the outputs of one source, whose ids follow
 * the prompt, and whose texts begin with it. */
TRANSDUCE_EXPORT const TransduceAnswers* transduce_engine_generate_ids(
    const TransduceEngine* engine, const int64_t* ids, int64_t count, TransduceSampling how, char* message, uint64_t room);

/* A search of a model that writes token by token, by the file's search with these options, whose `batch` counts for nothing.
 * A source's answer is the one that it has alone. One thread at a time may use it, and it must end before its engine closes. */
TRANSDUCE_EXPORT TransduceRunning* transduce_engine_begin(
    const TransduceEngine* engine, TransduceOptions options, char* message, uint64_t room);
TRANSDUCE_EXPORT void transduce_engine_end(TransduceRunning* running);

/* Adds sources, rows of ids that end with EOS, which start with the next step. Source b gets the key keys[b], which no other
 * source in the search has. `wanted` may be null. Returns `running`. After a null the search goes on without these sources. */
TRANSDUCE_EXPORT TransduceRunning* transduce_engine_enter(TransduceRunning* running, const int64_t* keys, const int64_t* ids,
    const int64_t* ends, const TransduceWanted* wanted, int64_t count, char* message, uint64_t room);

/* Steps of all sources: one, and others until `ended` sources have ended, at most `most` steps in all. The answers to those that
 * have ended, which leave. A source without an output had numbers that are not finite. After a null the search cannot go on. */
TRANSDUCE_EXPORT const TransduceAnswers* transduce_engine_step(
    TransduceRunning* running, int64_t ended, int64_t most, char* message, uint64_t room);

/* The sources with these keys leave without an answer. */
TRANSDUCE_EXPORT void transduce_engine_drop(TransduceRunning* running, const int64_t* keys, int64_t count);

TRANSDUCE_EXPORT void transduce_engine_free(const TransduceAnswers* answers);

#endif

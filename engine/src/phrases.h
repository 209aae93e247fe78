// Phrases that an output must contain, or must not contain, as an automaton over tokens (search/constraints/automata.py). The
// phrases of a source are one nondeterministic automaton. transduce_engine/phrases.py spells phrases so.
#ifndef TRANSDUCE_PHRASES_H
#define TRANSDUCE_PHRASES_H

#include <cstdint>
#include <memory>
#include <vector>

namespace transduce {

// The word borders of a vocabulary [V], bits of each token: ENDS if it ends the word before it, OPEN if no word continues after
// it. Empty if its tokens mark no words.
typedef std::vector<uint8_t> Borders;
const uint8_t ENDS = 1, OPEN = 2;

// A mask of the states that are active after the tokens of a hypothesis.
typedef std::vector<uint8_t> ActiveStates;

class Phrases {
  public:
    // Numbers of a request, as engine.h describes them. Throws Refusal for wrong ones.
    Phrases(const int64_t* numbers, int64_t count, int64_t vocabulary, std::shared_ptr<const Borders> borders);

    ActiveStates start() const;
    ActiveStates after(const ActiveStates& active, int64_t token) const;

    // Sets barred[v] for each token [V] that completes a phrase. If the output must end after it, its last word cannot continue.
    void bar(const ActiveStates& active, bool last, std::vector<uint8_t>& barred) const;

    // The number of phrase tokens that are written: those of all finished phrases, and of the unfinished one that has the most.
    int64_t written(const ActiveStates& active) const;

    // The number of tokens of all phrases.
    int64_t tokens() const { return tokens_; }

    // Adds the tokens that may come next in an unfinished phrase.
    void add_next(const ActiveStates& active, std::vector<int64_t>& tokens) const;

  private:
    struct Node {
        bool finished, waiting;  // whether the phrase is complete here, and whether it is if the last word does not go on
        int64_t phrase, worth;   // the finished state of the phrase, and how many of its tokens are written
    };
    struct Edge {
        int64_t origin, token, goal;
        bool own;  // whether it is of the tokenizer's own spelling
    };
    std::vector<Node> states_;
    std::vector<Edge> edges_;
    std::shared_ptr<const Borders> borders_;
    int64_t tokens_ = 0;
};

}  // namespace transduce

#endif

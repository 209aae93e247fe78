// Follows phrases. phrases.h explains it.

#include "phrases.h"

#include <algorithm>

#include "refusal.h"

namespace transduce {

const int64_t ANYWHERE = 0, BORDER = 1;   // states that each automaton has
const int64_t BREAK = -2, NO_TOKEN = -1;  // edges for any token that ends the word before it, and for none
const int64_t MOST_STATES = 1 << 20;

Phrases::Phrases(const int64_t* numbers, int64_t count, int64_t vocabulary, std::shared_ptr<const Borders> borders)
    : borders_(std::move(borders)) {
    const int64_t Q = count > 0 ? numbers[0] : 0;
    bool right = Q > BORDER && Q <= MOST_STATES && count >= 1 + 4 * Q && (count - 1) % 4 == 0;
    const auto is_state = [&](int64_t state) { return state >= 0 && state < Q; };
    for (int64_t n = 1; right && n < count; n += 4) {
        const int64_t* own = numbers + n;
        if (n <= 4 * Q) {
            right = is_state(own[2]) && own[3] >= 0 && own[3] <= MOST_STATES;
            states_.push_back({own[0] != 0, own[1] != 0, own[2], own[3]});
            if (own[0]) tokens_ += own[3];
        } else {
            right = is_state(own[0]) && own[1] >= BREAK && own[1] < vocabulary && is_state(own[2]);
            edges_.push_back({own[0], own[1], own[2], own[3] != 0});
        }
    }
    if (!right) throw Refusal("the phrases are no automaton of this vocabulary");
    if (!borders_->empty() && static_cast<int64_t>(borders_->size()) != vocabulary)
        throw Refusal("the word borders are of another vocabulary");
}

ActiveStates Phrases::start() const {
    ActiveStates found(states_.size());
    found[ANYWHERE] = found[BORDER] = true;
    return found;
}

ActiveStates Phrases::after(const ActiveStates& active, int64_t token) const {
    const bool words = !borders_->empty(), breaks = words && (*borders_)[token] & ENDS;
    ActiveStates found(states_.size());
    for (size_t q = 0; q < found.size(); ++q) found[q] = active[q] && states_[q].finished;
    for (const Edge& edge : edges_)
        if (active[edge.origin] && (edge.token == token || (edge.token == BREAK && breaks))) found[edge.goal] = true;
    found[ANYWHERE] = true;
    found[BORDER] = !words || (*borders_)[token] & OPEN;
    return found;
}

void Phrases::bar(const ActiveStates& active, bool last, std::vector<uint8_t>& barred) const {
    bool breaks = false;
    for (const Edge& edge : edges_) {
        const Node& goal = states_[edge.goal];
        if (!active[edge.origin] || !(goal.finished || (last && goal.waiting))) continue;
        if (edge.token >= 0) barred[edge.token] = true;
        breaks = breaks || edge.token == BREAK;
    }
    for (size_t v = 0; breaks && v < borders_->size(); ++v) barred[v] |= (*borders_)[v] & ENDS;
}

int64_t Phrases::written(const ActiveStates& active) const {
    int64_t finished = 0, begun = 0;
    for (size_t q = 0; q < active.size(); ++q) {
        if (!active[q]) continue;
        if (states_[q].finished) finished += states_[q].worth;
        if (!active[states_[q].phrase]) begun = std::max(begun, states_[q].worth);
    }
    return finished + begun;
}

void Phrases::add_next(const ActiveStates& active, std::vector<int64_t>& tokens) const {
    for (const Edge& edge : edges_)
        if (edge.own && edge.token > NO_TOKEN && active[edge.origin] && !active[states_[edge.goal].phrase])
            if (std::find(tokens.begin(), tokens.end(), edge.token) == tokens.end()) tokens.push_back(edge.token);
}

}  // namespace transduce

// The best output for each line of standard input: score, tab, text. `bash engine/wheels --try` runs it on a simulated
// processor. It is also an example of a program that links the engine.

#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "engine.h"

int main(int count, char** arguments) {
    if (count != 2) return std::fprintf(stderr, "usage: answer_lines FILE.engine < lines\n"), 2;
    std::ifstream file(arguments[1], std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    char message[200] = "";
    TransduceEngine* engine = transduce_engine_open(bytes.data(), bytes.size(), message, sizeof message);
    if (engine == nullptr) return std::fprintf(stderr, "%s\n", message), 1;
    for (std::string line; std::getline(std::cin, line);) {
        const int64_t end = static_cast<int64_t>(line.size());
        const TransduceOptions own = {0, 0, 0};
        const TransduceAnswers* answers = transduce_engine_answer(engine, line.data(), &end, 1, own, message, sizeof message);
        if (answers == nullptr) return std::fprintf(stderr, "%s\n", message), 1;
        std::printf("%.6f\t%.*s\n", answers->score[0], static_cast<int>(answers->text_ends[0]), answers->texts);
        transduce_engine_free(answers);
    }
    transduce_engine_close(engine);
}

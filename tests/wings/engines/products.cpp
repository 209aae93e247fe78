// Products of matrices against brute force: a program that test_products.py compiles and runs. It prints a line for each
// mistake.

#include <cmath>
#include <cstdio>
#include <random>
#include <thread>
#include <vector>

#include "interface.cpp"
#include "kernels/matrix.cpp"
#include "kernels/products.cpp"
#include "team.cpp"

int64_t transduce_size_of(const char*) { return -1; }

using namespace transduce;

static int mistakes = 0;

static void expect(bool right, const char* what, int outputs, int inputs, int rows) {
    if (!right && ++mistakes) std::printf("%s: %d outputs, %d inputs, %d rows\n", what, outputs, inputs, rows);
}

struct Case {
    int O, I, M;
    std::vector<int8_t> integers;
    std::vector<float> weight, scale, bias, x;

    Case(int outputs, int inputs, int rows)
        : O(outputs), I(inputs), M(rows), integers(O * I), weight(O * I), scale(O), bias(O), x(M * I) {
        std::mt19937 random(outputs + inputs + rows);
        std::normal_distribution<float> normal;
        for (int8_t& each : integers) each = static_cast<int8_t>(static_cast<int>(random() % 255) - 127);
        for (auto* some : {&weight, &scale, &bias, &x})
            for (float& each : *some) each = normal(random);
        for (int m = 0; m < M; ++m)  // rows of very different size, and one of zeros
            for (int i = 0; i < I; ++i) x[m * I + i] *= m == 4 ? 0.0f : std::pow(10.0f, static_cast<float>(m % 7 - 3));
    }

    // The largest products that a narrow matrix allows: two neighbouring weights sum to 128, and all of some rows of x have
    // the largest size.
    void make_narrow() {
        std::mt19937 random(O * I + M);
        const auto sign = [&] { return random() % 2 ? 1 : -1; };
        for (int o = 0; o < O; ++o)
            for (int i = 0; i < I; i += 2) {
                const int first = static_cast<int>(random() % 128), one = o % 3 ? sign() : 1, other = o % 3 ? sign() : 1;
                integers[o * I + i] = static_cast<int8_t>(one * first);
                if (i + 1 < I) integers[o * I + i + 1] = static_cast<int8_t>(other * std::min(127, 128 - first));
            }
        for (int m = 0; m < M; m += 2)
            for (int i = 0; i < I; ++i) x[m * I + i] = static_cast<float>(m % 4 ? sign() : m % 8 ? 1 : -1);
    }

    std::vector<float> product(const Matrix& matrix, int first, int count) const {
        std::vector<float> y(count * O, NAN);
        transduce_multiply(&matrix, x.data() + first * I, y.data(), count, NONE);
        return y;
    }
};

// The sums of integers are exact, and each row has its own scale.
static void check_integers(const Case& given, bool narrow) {
    const int O = given.O, I = given.I, M = given.M;
    Matrix matrix(O, I, nullptr);
    matrix.pack(given.integers.data(), given.scale.data());
    expect(matrix.narrow == narrow, "a matrix is wrongly narrow, or wide", O, I, M);
    const std::vector<float> y = given.product(matrix, 0, M);
    bool exact = true, alone = true;
    for (int m = 0; m < M; ++m) {
        float largest = 0;
        for (int i = 0; i < I; ++i) largest = std::max(largest, std::fabs(given.x[m * I + i]));
        for (int o = 0; o < O; ++o) {
            int64_t sum = 0;
            for (int i = 0; i < I && largest > 0; ++i)
                sum += static_cast<int64_t>(std::nearbyint(given.x[m * I + i] * (127 / largest))) * given.integers[o * I + i];
            exact = exact && y[m * O + o] == static_cast<float>(sum) * ((largest / 127) * given.scale[o]);
        }
        const std::vector<float> row = given.product(matrix, m, 1);
        alone = alone && std::equal(row.begin(), row.end(), y.begin() + m * O);
    }
    expect(exact, "sums of integers are not exact", O, I, M);
    expect(alone, "a row of integers depends on its company", O, I, M);
}

static void check_floats(const Case& given) {
    const int O = given.O, I = given.I, M = given.M;
    Matrix matrix(O, I, given.bias.data());
    matrix.pack(given.weight.data());
    const std::vector<float> y = given.product(matrix, 0, M);
    bool near = true, alone = true;
    for (int m = 0; m < M; ++m) {
        for (int o = 0; o < O; ++o) {
            double sum = given.bias[o], size = std::fabs(given.bias[o]);
            for (int i = 0; i < I; ++i) {
                sum += static_cast<double>(given.x[m * I + i]) * given.weight[o * I + i];
                size += std::fabs(static_cast<double>(given.x[m * I + i]) * given.weight[o * I + i]);
            }
            near = near && std::fabs(y[m * O + o] - sum) <= 1e-6 * size;
        }
        const std::vector<float> row = given.product(matrix, m, 1);
        alone = alone && std::equal(row.begin(), row.end(), y.begin() + m * O);
    }
    expect(near, "products of floats are wrong", O, I, M);
    expect(alone, "a row of floats depends on its company", O, I, M);
}

// Threads that share a product change no number, also if two callers come at a time.
static void check_threads(const Case& given) {
    Matrix matrix(given.O, given.I, nullptr);
    matrix.pack(given.integers.data(), given.scale.data());
    transduce_set_threads(1);
    const std::vector<float> expected = given.product(matrix, 0, given.M);
    transduce_set_threads(3);
    bool same[2] = {true, true};
    const auto repeat = [&](bool* found) {
        for (int n = 0; n < 50; ++n) *found = given.product(matrix, 0, given.M) == expected && *found;
    };
    std::thread other(repeat, same);
    repeat(same + 1);
    other.join();
    transduce_set_threads(1);
    expect(same[0] && same[1], "threads change a number", given.O, given.I, given.M);
}

int main() {
    for (const auto& size :
        {std::vector<int>{130, 37, 13}, {64, 8, 13}, {70, 700, 21}, {3, 1, 13}, {200, 300, 60}, {1000, 300, 1}}) {
        Case given(size[0], size[1], size[2]);
        check_integers(given, size[1] == 1);  // one input has no neighbour
        given.make_narrow();
        check_integers(given, true);
        given.integers[0] = -127;
        if (size[1] > 1) given.integers[1] = 2;
        check_integers(given, size[1] == 1);
        check_floats(Case(size[0], size[1], size[2]));
    }
    for (const auto& size : {std::vector<int>{1000, 300, 1}, {1000, 300, 7}, {200, 300, 300}})
        check_threads(Case(size[0], size[1], size[2]));
    return mistakes != 0;
}

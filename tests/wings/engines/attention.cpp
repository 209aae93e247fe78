// Attention against the plain sums that its header promises: a program that test_products.py compiles and runs. It prints
// a line for each mistake.

#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "kernels/attention.h"

using namespace transduce;

static int mistakes = 0;

static void check(int H, int D, int count) {
    std::mt19937 random(H * D + count);
    std::normal_distribution<float> normal;
    const int W = H * D;
    std::vector<float> query(W), keys(count * 2 * W), energy(H * count), context(W, NAN);
    for (auto* some : {&query, &keys})
        for (float& each : *some) each = normal(random);
    const Heads heads = {H, D};
    const auto key = [&](int s) -> const float* { return keys.data() + s * 2 * W; };
    dot_energies(heads, query.data(), 0.5f, count, energy.data(), key);
    bool equal = true, near = true;
    for (int h = 0; h < H; ++h)
        for (int s = 0; s < count; ++s)  // to the bit, so that no number depends on the kernel that a width has
            equal = equal && energy[h * count + s] == dot(query.data() + h * D, key(s) + h * D, D) * 0.5f;
    const std::vector<float> before = energy;
    average(heads, energy.data(), count, context.data(), [&](int s) { return key(s) + W; });
    for (int h = 0; h < H; ++h) {
        double whole = 0;
        for (int s = 0; s < count; ++s) whole += std::exp(static_cast<double>(before[h * count + s]));
        for (int s = 0; s < count; ++s)
            near =
                near && std::fabs(energy[h * count + s] - std::exp(static_cast<double>(before[h * count + s])) / whole) < 1e-6;
        for (int i = h * D; i < (h + 1) * D; ++i) {
            float sum = 0;
            for (int s = 0; s < count; ++s) sum += energy[h * count + s] * key(s)[W + i];
            equal = equal && context[i] == sum;
        }
    }
    if (!(equal && near) && ++mistakes)
        std::printf("%s: %d heads of %d, %d positions\n", equal ? "weights are wrong" : "sums differ", H, D, count);
}

int main() {
    for (int D : {1, 8, 16, 20, 32, 40, 64, 72, 128})
        for (int count : {0, 1, 7, 16, 33}) check(3, D, count);
    return mistakes != 0;
}

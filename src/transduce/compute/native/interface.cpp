// The shared functions of the interface.

#include "interface.h"

#include "team.h"

using namespace transduce;

int32_t transduce_processor() {
#if (defined(__GNUC__) || defined(__clang__)) && (defined(__x86_64__) || defined(__i386__))
    __builtin_cpu_init();
    const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vnni");
    return wide ? 2 : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 1 : 0;
#else
    return 0;
#endif
}

int32_t transduce_version() { return VERSION; }

void transduce_set_threads(int32_t threads) { Team::of_process().set_threads(threads); }

// Shares work among threads. team.h explains how.

#include "team.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <system_error>
#include <thread>

namespace transduce {

static const auto PATIENCE = std::chrono::milliseconds(1);  // how long a helper looks for work before it sleeps
static const int LOOKS = 64;                                // between two looks at the clock

static inline void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

Team& Team::of_process() {
    static Team* const team = new Team;
    return *team;
}

void Team::set_threads(int threads) {
    const std::lock_guard<std::mutex> until_end(members_);
    threads = std::max(1, std::min(threads, MOST_THREADS));
    try {
        for (; started_ < threads; ++started_) std::thread(&Team::help, this, started_).detach();
    } catch (const std::system_error&) {  // the system allows no more threads
    }
    threads_ = std::min(threads, started_);
}

void Team::run(int parts, const void* work, void (*call)(const void*, int)) {
    work_ = work;
    call_ = call;
    failed_ = false;
    const int shares = std::min(threads(), parts);
    for (int s = 0; s < shares; ++s) {
        share_[s].next.store(parts * s / shares, std::memory_order_relaxed);
        share_[s].end = parts * (s + 1) / shares;
    }
    shares_ = shares;
    ++number_;  // open
    if (asleep_ > 0) {
        const std::lock_guard<std::mutex> until_end(sleepers_);
        wake_.notify_all();
    }
    take_parts(0);
    ++number_;  // closed
    for (int looks = 0; inside_ > 0; ++looks)
        if (looks < LOOKS)
            pause_briefly();
        else
            std::this_thread::yield();  // the system may run something else in place of a helper
    if (failed_) throw std::bad_alloc();
}

// Does the parts that nobody has taken, those of `first_share` first.
void Team::take_parts(int first_share) {
    const int shares = shares_;
    for (int s = 0; s < shares; ++s) {
        Share& share = share_[(first_share + s) % shares];
        for (;;) {
            const int part = share.next.fetch_add(1, std::memory_order_relaxed);
            if (part >= share.end) break;
            try {
                call_(work_, part);
            } catch (const std::exception&) {
                failed_ = true;
            }
        }
    }
}

void Team::help(int own_share) {
    for (unsigned last = 0;;) {
        last = wait_for_work(last);
        if (own_share >= shares_) continue;
        ++inside_;
        if (last % 2 == 1 && number_ == last) take_parts(own_share);
        --inside_;
    }
}

// The number of work that was open and is not the `last`. It may be closed by now.
unsigned Team::wait_for_work(unsigned last) {
    const auto is_new = [last](unsigned number) { return number % 2 == 1 && number != last; };
    const auto end = std::chrono::steady_clock::now() + PATIENCE;
    do {  // a pause takes three to fifty nanoseconds, by the processor: only the clock knows when to end
        for (int looks = 0; looks < LOOKS; ++looks, pause_briefly()) {
            const unsigned number = number_;
            if (is_new(number)) return number;
        }
    } while (std::chrono::steady_clock::now() < end);
    std::unique_lock<std::mutex> until_end(sleepers_);
    ++asleep_;
    wake_.wait(until_end, [&] { return is_new(number_); });
    --asleep_;
    return number_;
}

}  // namespace transduce

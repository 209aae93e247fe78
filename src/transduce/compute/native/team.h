// Threads that share the parts of one piece of work, such as the panels of a matrix.
//
// A search makes thousands of small products a second, microseconds apart. So a helper looks for work for a while
// before it sleeps. A part belongs to nobody: each thread begins with its own share of the parts, and takes from the
// other shares when it has none left. So the caller never waits for a helper that the system runs later: it does that
// share too. Which thread does a part changes no result.
#ifndef TRANSDUCE_TEAM_H
#define TRANSDUCE_TEAM_H

#include <atomic>
#include <condition_variable>
#include <mutex>

namespace transduce {

const int MOST_THREADS = 8;  // a decoder's products are small: with more threads, each has little to do

class Team {
  public:
    // The team of this process. Nothing ends its helpers but the end of the process, because a helper may run then.
    static Team& of_process();

    // From now on, work is shared by this many threads, the caller included: 1 to MOST_THREADS.
    void set_threads(int threads);
    int threads() const { return threads_.load(std::memory_order_relaxed); }

    // Calls work(part) once for each part from 0 to `parts` - 1, and returns when all are done. While another caller
    // has the team, this one works alone. Throws std::bad_alloc if a part finds no memory.
    template <class Work>
    void share(int parts, const Work& work) {
        if (threads() == 1 || parts < 2 || !members_.try_lock()) {
            for (int part = 0; part < parts; ++part) work(part);
            return;
        }
        const std::lock_guard<std::mutex> until_end(members_, std::adopt_lock);
        run(parts, &work, [](const void* shared, int part) { (*static_cast<const Work*>(shared))(part); });
    }

  private:
    // The parts that one thread begins with. Shares are far enough apart to be in different cache lines.
    struct Share {
        std::atomic<int> next{0};
        int end = 0;
        char apart[120];
    };

    void run(int parts, const void* work, void (*call)(const void*, int));
    void take_parts(int first_share);
    void help(int own_share);
    unsigned wait_for_work(unsigned last);

    std::atomic<int> threads_{1};
    int started_ = 1;  // threads, the caller included
    std::mutex members_;

    // The current work. Its number is odd while helpers may enter; a helper that has entered is counted in `inside_`,
    // and the caller waits until nobody is.
    std::atomic<unsigned> number_{0};
    std::atomic<int> inside_{0};
    std::atomic<int> shares_{0};
    std::atomic<bool> failed_{false};  // an exception must not leave a helper
    const void* work_ = nullptr;
    void (*call_)(const void*, int) = nullptr;
    Share share_[MOST_THREADS];

    std::mutex sleepers_;
    std::condition_variable wake_;
    std::atomic<int> asleep_{0};
};

}  // namespace transduce

#endif

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/partitioner.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_scheduler_observer.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/activity.h"
#include "core/process_limits.h"
#include "core/workers.h"

namespace l2l {
namespace {

namespace tbb = oneapi::tbb;

// Keeps oneTBB's threads on `cpus` while they work in the arena. They also serve other arenas, the embedder's included,
// and get their previous CPUs back when they leave: those of the thread that made the pool, since a thread that oneTBB
// starts for a bound caller inherits its binding. For the same reason, once there was a pool with `cpus`, pools without
// check their threads too. Thread-safe: an entry per thread of the arena.
// It also lists them among the threads of the library (core/activity.h).
class ArenaBinding final : public tbb::task_scheduler_observer {
 public:
  ArenaBinding(tbb::task_arena& arena, std::string name, int threads, const std::vector<int>& cpus)
      : task_scheduler_observer(arena),
        name_(std::move(name)),
        cpus_(cpus),
        guests_(static_cast<std::size_t>(threads)) {
    if (!cpus.empty()) any_bound_ = true;
    observe(true);
  }
  // Threads leave an idle arena by themselves, on a busy machine when they get to run. Those that are still there get
  // no on_scheduler_exit() later, and oneTBB would lose what it noted of this observer for them if the process ended
  // first.
  ~ArenaBinding() override {
    constexpr std::chrono::milliseconds kPatience(2000), kPause(1);
    const auto give_up = std::chrono::steady_clock::now() + kPatience;
    while (inside_ != 0 && std::chrono::steady_clock::now() < give_up) std::this_thread::sleep_for(kPause);
    observe(false);
    for (const int thread : guests_) {
      if (thread != 0) home_.apply(thread);
    }
  }
  void on_scheduler_entry(bool is_worker) override {
    if (!is_worker) return;
    ++inside_;
    list_thread(name_, static_cast<int>(place()));
    if (!any_bound_) return;
    if (cpus_.empty()) return free_thread();
    guests_[place()] = gettid();
    bind_thread(cpus_);
  }
  void on_scheduler_exit(bool is_worker) override {
    if (!is_worker) return;
    unlist_thread();
    if (!cpus_.empty()) {
      bind_thread(home_);
      guests_[place()] = 0;
    }
    --inside_;
  }

 private:
  static std::size_t place() { return static_cast<std::size_t>(tbb::this_task_arena::current_thread_index()); }
  void free_thread() const {
    if (CpuSet::of_thread() != home_) bind_thread(home_);
  }

  static inline std::atomic<bool> any_bound_{false};
  const std::string name_;
  const CpuSet cpus_, home_ = CpuSet::of_thread();
  std::atomic<int> inside_ = 0;  // threads of oneTBB that are in the arena
  std::vector<int> guests_;      // by index in the arena: the thread bound for it; 0: none
};

// The threads of all pools, beside their callers. oneTBB makes one when there is work for it, even while another is
// about to be free, ends the process or throws where it cannot, and keeps those that it made. By default it has one per
// core for all arenas; pools may have more together. So a first pool, or one that takes more threads than there were,
// sets oneTBB's limit, which the tightest global_control of a process holds (an embedder's own still counts), sees that
// the threads can be made, and has them made at once. Thread-safe.
class PoolThreads {
 public:
  void add(int threads) {
    const std::lock_guard lock(mutex_);
    if (used_ + threads > made_) {
      check_threads(used_ + threads - made_);
      made_ = used_ + threads;
      limit_.reset();
    }
    used_ += threads;
    ++pools_;
    if (limit_) return;
    const int cores = tbb::info::default_concurrency();  // what an embedder's own arenas count on
    limit_.emplace(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(std::max(cores, made_ + 1)));
    make();
  }
  void remove(int threads) {
    const std::lock_guard lock(mutex_);
    used_ -= threads;
    if (--pools_ == 0) limit_.reset();
  }

 private:
  // On a busy machine threads take long to come; where the embedder limits them, some never do.
  void make() const {
    const std::size_t allowed = tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism);
    const std::chrono::milliseconds patience(allowed > static_cast<std::size_t>(made_) ? 5000 : 100);
    const auto give_up = std::chrono::steady_clock::now() + patience;
    std::mutex mutex;
    std::condition_variable all_there;
    int missing = made_ + 1;  // the caller works, too
    const auto meet = [&](int) {
      std::unique_lock lock(mutex);
      if (--missing == 0) all_there.notify_all();
      all_there.wait_until(lock, give_up, [&] { return missing == 0; });
    };
    tbb::task_arena arena(made_ + 1, /*reserved_for_masters=*/1);
    arena.execute([&] { tbb::parallel_for(0, made_ + 1, meet, tbb::simple_partitioner{}); });
  }

  std::mutex mutex_;
  std::optional<tbb::global_control> limit_;  // while there is a pool
  int pools_ = 0, used_ = 0;
  int made_ = 0;  // the most that pools ever had
};

PoolThreads& pool_threads() {
  static PoolThreads& all = *new PoolThreads;  // pools of static objects may outlive what is destroyed at exit
  return all;
}

}  // namespace

struct Workers::Implementation {
  Implementation(const std::string& name, int threads, const std::vector<int>& cpus)
      : others(threads - 1),
        arena(threads, /*reserved_for_masters=*/1),
        binding(arena, name + " worker", threads, cpus) {}

  struct Others {
    explicit Others(int threads) : threads(threads) { pool_threads().add(threads); }
    ~Others() { pool_threads().remove(threads); }
    Others(const Others&) = delete;
    Others& operator=(const Others&) = delete;
    const int threads;
  } others;
  tbb::task_arena arena;
  ArenaBinding binding;
};

// oneTBB shares its threads between pools: one has the pool's name while it works there.
Workers::Workers(std::string name, int threads, const std::vector<int>& cpus)
    : threads_(std::max(1, threads)), implementation_(std::make_unique<Implementation>(name, threads_, cpus)) {}

Workers::~Workers() = default;

void Workers::run_in_parallel(std::int64_t blocks, BlockFunction function) {
  const auto body = [function](const tbb::blocked_range<std::int64_t>& range) {
    flush_denormals_to_zero();  // in every task: oneTBB restores the arena's floating-point settings for each
    const int slot = tbb::this_task_arena::current_thread_index();
    for (std::int64_t block = range.begin(); block < range.end(); ++block) function(block, slot);
  };
  implementation_->arena.execute(
      [&] { tbb::parallel_for(tbb::blocked_range<std::int64_t>(0, blocks, 1), body, tbb::simple_partitioner{}); });
}

}  // namespace l2l

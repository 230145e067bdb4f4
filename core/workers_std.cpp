#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "core/activity.h"
#include "core/workers.h"

namespace l2l {
struct Workers::Implementation {
  Implementation(const std::string& name, int threads, const std::vector<int>& cpus) : name_(name), cpus_(cpus) {
    for (int slot = 1; slot < threads; ++slot) {
      try {
        threads_.emplace_back([this, slot] { work(slot); });
      } catch (...) {  // no more threads: those that run must be joined before the members go
        join();
        throw;
      }
      pthread_setname_np(threads_.back().native_handle(), (name + " " + std::to_string(slot)).substr(0, 15).c_str());
    }
  }
  ~Implementation() { join(); }
  void run(std::int64_t blocks, BlockFunction function);

 private:
  void join();
  void work(int slot);
  void run_blocks(int slot);

  const std::string name_;
  const CpuSet cpus_;
  std::mutex mutex_;
  std::condition_variable opened_, left_;
  bool stop_ = false;                      // guarded by mutex_
  bool open_ = false;                      // guarded by mutex_: helpers may join the call
  std::exception_ptr error_;               // guarded by mutex_
  std::uint64_t calls_ = 0;                // guarded by mutex_
  int inside_ = 0;                         // helpers in the call; guarded by mutex_
  std::optional<BlockFunction> function_;  // constant while helpers are inside
  std::int64_t blocks_ = 0;                // constant while helpers are inside
  std::atomic<std::int64_t> next_{0};
  std::vector<std::thread> threads_;
};

void Workers::Implementation::join() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  opened_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Workers::Implementation::work(int slot) {
  const ThreadActivity listed(name_ + " worker", slot);
  bind_thread(cpus_);
  flush_denormals_to_zero();
  std::unique_lock lock(mutex_);
  for (std::uint64_t seen = 0;;) {
    const ActivitySpan span(Doing::rests, "the wait for blocks");
    opened_.wait(lock, [&] { return stop_ || (open_ && calls_ != seen); });
    if (stop_) return;
    seen = calls_;
    ++inside_;
    lock.unlock();
    run_blocks(slot);
    lock.lock();
    if (--inside_ == 0) left_.notify_one();
  }
}

void Workers::Implementation::run_blocks(int slot) {
  try {
    for (std::int64_t block; (block = next_.fetch_add(1, std::memory_order_relaxed)) < blocks_;) {
      (*function_)(block, slot);
    }
  } catch (...) {
    next_.store(blocks_, std::memory_order_relaxed);  // the blocks not yet begun are skipped
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::current_exception();
  }
}

void Workers::Implementation::run(std::int64_t blocks, BlockFunction function) {
  {
    const std::lock_guard lock(mutex_);
    function_.emplace(function);
    blocks_ = blocks;
    next_.store(0, std::memory_order_relaxed);
    error_ = nullptr;
    open_ = true;
    ++calls_;
  }
  opened_.notify_all();
  run_blocks(0);
  std::unique_lock lock(mutex_);
  open_ = false;  // does not wait for helpers that are still asleep
  left_.wait(lock, [&] { return inside_ == 0; });
  if (error_) std::rethrow_exception(error_);
}

Workers::Workers(std::string name, int threads, const std::vector<int>& cpus)
    : threads_(std::max(1, threads)), implementation_(std::make_unique<Implementation>(name, threads_, cpus)) {}

Workers::~Workers() = default;

void Workers::run_in_parallel(std::int64_t blocks, BlockFunction function) { implementation_->run(blocks, function); }

}  // namespace l2l

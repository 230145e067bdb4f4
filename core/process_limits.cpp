#include "core/process_limits.h"

#include <pthread.h>
#include <sys/resource.h>

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "core/host_memory.h"
#include "l2l/errors.h"

namespace l2l {
namespace {

std::optional<Bytes> limit_of(int resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

// Bytes of a new thread's stack.
Bytes stack_bytes() {
  pthread_attr_t attributes;
  std::size_t bytes = 8 * kMiB;
  if (pthread_getattr_default_np(&attributes) == 0) {
    pthread_attr_getstacksize(&attributes, &bytes);
    pthread_attr_destroy(&attributes);
  }
  return bytes;
}

constexpr const char* kThreadRemedy =
    "; raise the limit on threads (ulimit -u, pids.max of a control group), or lower eps.threads and device.threads";

// Threads that wait for each other until the last one is made.
class Crowd {
 public:
  ~Crowd() { release(); }
  // Throws std::system_error.
  void add() {
    threads_.emplace_back([this] {
      std::unique_lock lock(mutex_);
      released_.wait(lock, [&] { return done_; });
    });
  }
  void release() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    released_.notify_all();
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable released_;
  bool done_ = false;  // guarded by mutex_
  std::vector<std::thread> threads_;
};

// `used` and `more`: of what the limit counts. `parts`: what `more` is.
void refuse_address_space(const char* name, const char* option, int resource, Bytes used, Bytes more,
                          const std::string& parts) {
  const std::optional<Bytes> limit = limit_of(resource);
  if (!limit || used + more <= *limit) return;
  throw OutOfMemory(std::string(name) + ": needs " + format_bytes(used + more) + " (" + parts + "), the limit (" +
                    option + ") is " + format_bytes(*limit) + ", short by " + format_bytes(used + more - *limit) +
                    "; raise the limit, or lower eps.threads and device.threads");
}

}  // namespace

std::string limits_in_force() {
  std::string text;
  const auto add = [&](const std::string& limit) { text += (text.empty() ? "" : ", ") + limit; };
  if (const auto limit = limit_of(RLIMIT_AS)) add("ulimit -v " + format_bytes(*limit));
  if (const auto limit = limit_of(RLIMIT_DATA)) add("ulimit -d " + format_bytes(*limit));
  if (const auto limit = limit_of(RLIMIT_NPROC)) add("ulimit -u " + std::to_string(*limit));
  const HostAvailable available = HostMemory().available();
  add(available.source + ", of which " + format_bytes(available.bytes) + " are left");
  return text;
}

void check_threads(int count) {
  Crowd crowd;
  for (int made = 0; made < count; ++made) {
    try {
      crowd.add();
    } catch (const std::exception& error) {
      crowd.release();  // there may be no memory for a message before
      throw BadInput("threads: " + std::to_string(count) + " more are needed, and only " + std::to_string(made) +
                     " could be made (" + error.what() + "; limits: " + limits_in_force() + ")" + kThreadRemedy);
    }
  }
}

void check_open_files(int count) {
  const std::optional<Bytes> limit = limit_of(RLIMIT_NOFILE);
  if (!limit) return;
  Bytes open = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end; !error && entry != end;
       entry.increment(error)) {
    ++open;
  }
  if (error || open + static_cast<Bytes>(count) <= *limit) return;
  throw BadInput("open files: " + std::to_string(open) + " are open and up to " + std::to_string(count) +
                 " more are needed, the limit (ulimit -n) is " + std::to_string(*limit) + "; raise the limit");
}

void check_address_space(Bytes bytes, int threads) {
  if (!limit_of(RLIMIT_AS) && !limit_of(RLIMIT_DATA)) return;  // what is used is not even read then
  const Bytes stacks = static_cast<Bytes>(threads) * stack_bytes();
  const HostMemory memory;
  const std::string parts = format_bytes(bytes) + " beside what is there, and " + std::to_string(threads) +
                            " stacks of " + format_bytes(stack_bytes());
  refuse_address_space("address space", "ulimit -v", RLIMIT_AS, memory.address_space_used(), bytes + stacks, parts);
  refuse_address_space("private memory", "ulimit -d", RLIMIT_DATA, memory.data_used(), bytes + stacks, parts);
}

void rethrow_with_limits() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    throw OutOfMemory("memory ran out: an allocation was refused; limits: " + limits_in_force());
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::resource_unavailable_try_again) throw;
    throw BadInput("a thread could not be made (" + std::string(error.what()) + "; limits: " + limits_in_force() + ")" +
                   kThreadRemedy);
  }
}

}  // namespace l2l

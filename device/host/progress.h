// How far a stream has come; events and waits refer to it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

namespace l2l::device {

// Thread-safe where it says so. Outlives its stream as long as a mark refers to it.
class Progress {
 public:
  std::mutex mutex;  // guards this object and the stream's queue

  // Commands done so far, counted from the stream's first. Call under `mutex`.
  std::uint64_t completed() const { return completed_; }
  void advance();
  // Returns, `lock` (of `mutex`) held, when the first `position` commands are done.
  void wait(std::unique_lock<std::mutex>& lock, std::uint64_t position);

 private:
  static constexpr std::uint64_t kNobody = ~std::uint64_t{0};

  std::condition_variable changed_;
  std::uint64_t completed_ = 0;
  std::uint64_t awaited_ = kNobody;  // lowest position that somebody waits for
};

// "The first `position` commands of that stream." Immutable; an empty mark has always been reached.
struct Mark {
  std::shared_ptr<Progress> progress;
  std::uint64_t position = 0;

  // Returns when it has been reached.
  void wait() const;
};

}  // namespace l2l::device

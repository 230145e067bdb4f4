#include "core/run_at_once.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <condition_variable>
#include <stdexcept>
#include <system_error>

#include "core/host_memory.h"

namespace l2l {
namespace {

// Calls that wait until all are there, as those of devices do, or until they are aborted.
class Meeting {
 public:
  explicit Meeting(std::size_t count) : count_(count) {}

  void wait() {
    std::unique_lock lock(mutex_);
    ++there_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return there_ == count_ || aborted_; });
    if (aborted_) throw std::runtime_error("aborted");
  }
  void abort() {
    {
      const std::lock_guard lock(mutex_);
      aborted_ = true;
    }
    changed_.notify_all();
  }
  bool aborted() const { return aborted_; }

 private:
  const std::size_t count_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t there_ = 0;
  bool aborted_ = false;
};

TEST(RunAtOnce, RunsCallsThatWaitForEachOther) {
  constexpr std::size_t kCalls = 5;
  Meeting meeting(kCalls);
  std::vector<int> runs(kCalls);
  run_at_once(
      kCalls,
      [&](std::size_t i) {
        meeting.wait();
        ++runs[i];
      },
      [&](std::exception_ptr) { meeting.abort(); });
  EXPECT_EQ(runs, std::vector<int>(kCalls, 1));
  EXPECT_FALSE(meeting.aborted());
}

TEST(RunAtOnce, EndsTheOthersWhereOneThrows) {
  Meeting meeting(4);
  int aborts = 0;
  const auto run = [&](std::size_t i) {
    if (i == 2) throw std::invalid_argument("the third");
    meeting.wait();
  };
  EXPECT_THROW(run_at_once(4, run,
                           [&](std::exception_ptr cause) {
                             ++aborts;
                             EXPECT_THROW(std::rethrow_exception(cause), std::invalid_argument);
                             meeting.abort();
                           }),
               std::invalid_argument);
  EXPECT_EQ(aborts, 1);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they reserve terabytes of addresses
TEST(RunAtOnce, EndsTheOthersWhereAThreadCannotBeMade) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  constexpr std::size_t kCalls = 1000;  // of whose stacks the addresses are not enough
  Meeting meeting(kCalls);
  const rlimit narrow{HostMemory().address_space_used() + 256 * kMiB, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &narrow), 0);
  EXPECT_THROW(run_at_once(
                   kCalls, [&](std::size_t) { meeting.wait(); }, [&](std::exception_ptr) { meeting.abort(); }),
               std::system_error);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_TRUE(meeting.aborted());
}
#endif

}  // namespace
}  // namespace l2l

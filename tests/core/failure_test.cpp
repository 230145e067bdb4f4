#include "core/failure.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <thread>

#include "l2l/errors.h"

namespace l2l {
namespace {

std::exception_ptr error(const char* what) { return std::make_exception_ptr(DeviceError(what)); }

std::string message(const Failure& failure) {
  try {
    failure.rethrow();
  } catch (const DeviceError& caught) {
    return caught.what();
  }
  return "";
}

TEST(Failure, RethrowsNothingBeforeAndTheFirstAfterwards) {
  Failure failure;
  EXPECT_FALSE(failure.failed());
  EXPECT_NO_THROW(failure.rethrow());
  failure.fail(error("first"));
  failure.fail(error("second"));
  EXPECT_TRUE(failure.failed());
  EXPECT_EQ(message(failure), "first");
  EXPECT_EQ(message(failure), "first");
}

TEST(Failure, WakesAWaiterThatNobodyElseWould) {
  Failure failure;
  std::mutex mutex;
  std::condition_variable changed;
  const Failure::Registration registration = failure.on_failure([&] {
    { const std::lock_guard lock(mutex); }
    changed.notify_all();
  });
  std::thread waiter([&] {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return failure.failed(); });
    EXPECT_EQ(message(failure), "lost");  // with the lock that the waker takes: must not deadlock
  });
  failure.fail(error("lost"));
  waiter.join();
}

TEST(Failure, RunsEachWakerOnceAndNoneThatIsUnregistered) {
  Failure failure;
  int kept = 0, dropped = 0;
  Failure::Registration first = failure.on_failure([&] { ++kept; });
  Failure::Registration moved = std::move(first);
  Failure::Registration replaced = failure.on_failure([&] { ++dropped; });
  replaced = failure.on_failure([&] { ++kept; });
  {
    const Failure::Registration scoped = failure.on_failure([&] { ++dropped; });
  }
  Failure::Registration reset = failure.on_failure([&] { ++dropped; });
  reset.reset();
  failure.fail(error("x"));
  failure.fail(error("y"));
  EXPECT_EQ(kept, 2);
  EXPECT_EQ(dropped, 0);
}

TEST(Failure, OneOfManyThreadsWins) {
  Failure failure;
  std::vector<std::thread> threads;
  for (const char* name : {"a", "b", "c", "d"}) threads.emplace_back([&failure, name] { failure.fail(error(name)); });
  for (std::thread& thread : threads) thread.join();
  const std::string winner = message(failure);
  EXPECT_EQ(winner.size(), 1u);
  EXPECT_EQ(message(failure), winner);
}

}  // namespace
}  // namespace l2l

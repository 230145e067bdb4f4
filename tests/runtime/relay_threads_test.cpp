#include "runtime/relay_threads.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <system_error>

#include "core/host_memory.h"

namespace l2l::runtime {
namespace {

TEST(RelayThreads, RunACallForEachDeviceAtOnce) {
  constexpr int kDevices = 4;
  Failure failure;
  RelayThreads threads(kDevices, failure);
  std::barrier<> all(kDevices);
  std::vector<int> runs(kDevices);
  for (int call = 0; call < 3; ++call) {
    threads.run([&](int device) {
      all.arrive_and_wait();
      ++runs[static_cast<std::size_t>(device)];
    });
  }
  EXPECT_EQ(runs, std::vector<int>(kDevices, 3));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they reserve terabytes of addresses
TEST(RelayThreads, EndThoseThatWereMadeWhereOneCannotBe) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const rlimit narrow{HostMemory().address_space_used() + 256 * kMiB, before.rlim_max};
  Failure failure;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &narrow), 0);
  EXPECT_THROW(RelayThreads(1000, failure), std::system_error);  // of whose stacks the addresses are not enough
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_FALSE(failure.failed());
}
#endif

}  // namespace
}  // namespace l2l::runtime

// The suite on ranks that are threads, and what goes wrong between ranks.
#include <gtest/gtest.h>

#include <functional>
#include <latch>
#include <mutex>
#include <thread>

#include "collectives/threads.h"
#include "l2l/errors.h"
#include "tests/collectives/altered.h"
#include "tests/collectives/suite.h"

namespace l2l::collectives {
namespace {

// Calls function(collectives) on a thread of each rank; what each threw, or an empty text.
std::vector<std::string> on_ranks(std::vector<std::unique_ptr<Transport>> transports,
                                  const std::function<void(Collectives&)>& function) {
  std::vector<std::string> thrown(transports.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < transports.size(); ++rank) {
    threads.emplace_back([&, rank] {
      Collectives ranks(std::move(transports[rank]));
      try {
        function(ranks);
      } catch (const Error& error) {
        thrown[rank] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return thrown;
}

void expect_suite(Collectives& ranks) { EXPECT_EQ(testing::run_suite(ranks), ""); }

TEST(Collectives, ASingleRank) {
  Collectives ranks(single());
  expect_suite(ranks);
  EXPECT_EQ(ranks.traffic(), Traffic());
}

TEST(Collectives, RanksThatAreThreads) {
  for (const int count : {1, 2, 3, 4, 7}) {
    for (const std::string& thrown : on_ranks(connected_threads(count), expect_suite)) EXPECT_EQ(thrown, "");
  }
}

// What the suite finds wrong where this happens to what five ranks send.
std::string found_with(const testing::Alter& alter) {
  std::vector<std::unique_ptr<Transport>> transports = connected_threads(5);
  for (auto& transport : transports) transport = std::make_unique<testing::Altered>(std::move(transport), alter);
  std::mutex mutex;
  std::string found;
  on_ranks(std::move(transports), [&](Collectives& ranks) {
    const std::string wrong = testing::run_suite(ranks);
    const std::lock_guard lock(mutex);
    if (!wrong.empty()) found = wrong;
  });
  return found;
}

// Negative controls: the suite sees pieces that went to the wrong rank, and channels that are one.
TEST(CollectivesNegativeControl, PiecesForAnotherRankAreSeen) {
  const std::string found = found_with([](int&, std::vector<Send>& sent) {
    if (sent.size() > 1 && sent[0].bytes.size() == sent[1].bytes.size()) std::swap(sent[0].bytes, sent[1].bytes);
  });
  EXPECT_NE(found.find("all_to_all"), std::string::npos) << found;
}

TEST(CollectivesNegativeControl, ChannelsThatAreOneAreSeen) {
  const std::string found = found_with([](int& channel, std::vector<Send>&) { channel = 0; });
  EXPECT_NE(found.find("of the channels"), std::string::npos) << found;
}

TEST(Collectives, AnAbortWakesWhoeverWaits) {
  std::latch started(2);
  const std::vector<std::string> thrown = on_ranks(connected_threads(3), [&](Collectives& ranks) {
    Collectives part = ranks.split(0);
    if (ranks.rank() == 1) {
      started.wait();
      ranks.abort("rank 1 has no memory left");
    }
    std::vector<std::byte> data(1);  // from rank 1, which sends nothing
    const auto exchange = (ranks.rank() == 0 ? ranks : part).broadcast(1, data);
    started.count_down();
    exchange->wait();
  });
  EXPECT_EQ(thrown, std::vector<std::string>(3, "rank 1 has no memory left"));
}

TEST(Collectives, ARankThatThrowsLeavesNobodyWaiting) {
  const std::vector<std::string> thrown = on_ranks(connected_threads(2), [](Collectives& ranks) {
    Collectives part = ranks.split(0);
    std::vector<std::byte> data(1);
    if (ranks.rank() == 1) {
      const auto exchange = part.broadcast(0, data);  // never sent
      throw Error("rank 1 is at its end");
    }
    std::vector<std::byte> all(2);
    const std::vector<Bytes> sizes = {1, 1};
    ranks.all_gather(data, sizes, all)->wait();
  });
  EXPECT_EQ(thrown, std::vector<std::string>({"a rank ended early", "rank 1 is at its end"}));
}

// Destroyed without a wait: all the same it is done.
TEST(Collectives, AnExchangeThatIsDroppedIsWaitedFor) {
  const std::vector<std::string> thrown = on_ranks(connected_threads(3), [](Collectives& ranks) {
    std::vector<std::byte> data(1000, ranks.rank() == 2 ? std::byte{7} : std::byte{0});
    ranks.broadcast(2, data);
    EXPECT_EQ(data, std::vector<std::byte>(1000, std::byte{7}));
  });
  EXPECT_EQ(thrown, std::vector<std::string>(3));
}

TEST(Collectives, SizesThatDoNotFitAreRefused) {
  const std::vector<std::string> thrown = on_ranks(connected_threads(2), [](Collectives& ranks) {
    std::vector<std::byte> data(ranks.rank() == 0 ? 8 : 9);
    ranks.broadcast(0, data)->wait();
  });
  EXPECT_EQ(thrown[1], "a rank sent 8 bytes where another expected 9");
  Collectives ranks(single());
  std::vector<std::byte> data(4);
  const std::vector<Bytes> one = {4}, two = {2, 2}, less = {3};
  EXPECT_THROW(ranks.all_gather(data, two, data), Error);
  EXPECT_THROW(ranks.broadcast(1, data), Error);
  EXPECT_THROW(ranks.all_gather(data, less, data), Error);
  EXPECT_THROW(ranks.all_to_all(data, one, std::span(data).first(3), less), Error);
}

}  // namespace
}  // namespace l2l::collectives

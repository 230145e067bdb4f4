// What all devices promise of a group that exchanges slices (device/peers.h).
#include "tests/conformance/device/exchanging.h"

namespace l2l::device {
namespace {

class PeersTest : public ::testing::TestWithParam<Backend> {};
INSTANTIATE_TEST_SUITE_P(Devices, PeersTest, ::testing::ValuesIn(backends()), backend_name);

constexpr PeerCall kCalls[] = {PeerCall::all_gather, PeerCall::all_to_all};

// Each round overwrites what the one before brought, while slower members may still read it.
TEST_P(PeersTest, EveryMemberGetsAllSlicesInEveryRound) {
  constexpr int kRounds = 25;
  for (const int count : {1, 2, 3, 4}) {  // one: what a machine with a single GPU can show
    const PeersOfBackend group(GetParam(), count);
    if (!group.peers) GTEST_SKIP() << group.reason;
    EXPECT_EQ(group.peers->count(), count);
    EXPECT_FALSE(group.peers->description().empty());
    for (const Bytes slice : {Bytes{256}, 40 * kKiB + 256}) {
      for (const PeerCall call : kCalls) {
        EXPECT_EQ(wrong_rounds(group, call, slice, kRounds), 0) << count << " members, slices of " << slice;
      }
    }
  }
}

TEST_P(PeersTest, AGroupOfTheSameDevicesFollowsAnother) {
  for (int run = 0; run < 3; ++run) {
    const PeersOfBackend group(GetParam(), 2);
    if (!group.peers) GTEST_SKIP() << group.reason;
    for (const PeerCall call : kCalls) EXPECT_EQ(wrong_rounds(group, call, 256, 2), 0);
  }
}

TEST_P(PeersTest, WhatCannotBeDividedIsRefused) {
  const PeersOfBackend group(GetParam(), 2);
  if (!group.peers) GTEST_SKIP() << group.reason;
  group.run([&](int member) {
    Device& device = *group.members[static_cast<std::size_t>(member)];
    const auto stream = device.create_stream("gathers");
    const auto memory = device.allocate(257, "whole");
    EXPECT_THROW(group.peers->all_gather(member, *stream, memory->view()), Error);
    EXPECT_THROW(group.peers->all_to_all(member, *stream, memory->view(), memory->view()), Error);
    const auto more = device.allocate(258, "more");
    EXPECT_THROW(group.peers->all_to_all(member, *stream, more->view(), memory->view()), Error);
  });
}

// Whenever the abort comes, those that wait for a member that never calls go on.
TEST_P(PeersTest, AnAbortEndsWhatWaits) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    const PeersOfBackend group(GetParam(), 3);
    if (!group.peers) GTEST_SKIP() << group.reason;
    std::vector<std::unique_ptr<ExchangingMember>> members;
    for (int member = 0; member < 3; ++member) {
      members.push_back(std::make_unique<ExchangingMember>(group, kCalls[attempt % 2], member, 256, /*rounds=*/1));
    }
    group.run([&](int member) {
      ExchangingMember& own = *members[static_cast<std::size_t>(member)];
      if (member == 2) {
        std::this_thread::sleep_for(std::chrono::microseconds(100 * attempt));
        return group.peers->abort();
      }
      try {
        own.enqueue(0);
        own.synchronize();
      } catch (const DeviceError&) {  // where the abort came first, or the thread waits for the others
      }
    });
    EXPECT_THROW(members[2]->enqueue(0), DeviceError);
  }
}

}  // namespace
}  // namespace l2l::device

// The stand-in for NCCL: all-gathers, groups of sends and receives, and the refusal of what the real library would
// misread or hang on.
#include <nccl.h>

#include <cstring>
#include <string>
#include <utility>

#include "tests/emulation/emulation_fixture.h"

namespace l2l::test {
namespace {

constexpr int kRanks = 3;
constexpr std::size_t kSlice = 1000;

class Nccl : public EmulationFixture {
 protected:
  void SetUp() override {
    emulation::set_machine({.devices = kRanks});
    ncclGetUniqueId(&id_);
    ncclGroupStart();
    for (int rank = 0; rank < kRanks; ++rank) {
      cudaSetDevice(rank);
      EXPECT_EQ(init(rank, &communicators_[rank]), ncclInProgress);
      cudaStreamCreateWithFlags(&streams_[rank], cudaStreamNonBlocking);
      cudaMalloc(reinterpret_cast<void**>(&wholes_[rank]), kRanks * kSlice);
      cudaMalloc(reinterpret_cast<void**>(&received_[rank]), kRanks * kSlice);
      std::memset(wholes_[rank] + static_cast<std::size_t>(rank) * kSlice, 'a' + rank, kSlice);
    }
    ncclGroupEnd();
    for (const ncclComm_t communicator : communicators_) wait(communicator);
  }
  void TearDown() override {
    for (const ncclComm_t communicator : communicators_) ncclCommAbort(communicator);
    for (const cudaStream_t stream : streams_) cudaStreamSynchronize(stream), cudaStreamDestroy(stream);
    emulation::clear_error();
    for (char* const whole : wholes_) cudaFree(whole);
    for (char* const received : received_) cudaFree(received);
    cudaSetDevice(0);
    emulation::set_machine({});
    EmulationFixture::TearDown();
  }

  ncclResult_t init(int rank, ncclComm_t* made, int blocking = 0) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = blocking;
    return ncclCommInitRankConfig(made, kRanks, id_, rank, &config);
  }
  ncclResult_t gather(int rank, std::size_t count = kSlice, std::size_t shift = 0) {
    char* const whole = wholes_[rank];
    return ncclAllGather(whole + static_cast<std::size_t>(rank) * count + shift, whole, count, ncclUint8,
                         communicators_[rank], streams_[rank]);
  }
  // Sends and receives of a slice for each of the ranks [begin, end).
  ncclResult_t exchange(int rank, int end = kRanks, std::size_t count = kSlice, int begin = 0) {
    ncclGroupStart();
    for (int peer = begin; peer < end; ++peer) {
      const std::size_t at = static_cast<std::size_t>(peer) * count;
      EXPECT_EQ(ncclSend(wholes_[rank] + at, count, ncclUint8, peer, communicators_[rank], streams_[rank]),
                ncclInProgress);
      EXPECT_EQ(ncclRecv(received_[rank] + at, count, ncclUint8, peer, communicators_[rank], streams_[rank]),
                ncclInProgress);
    }
    return ncclGroupEnd();
  }
  static void wait(ncclComm_t communicator) {
    ncclResult_t status = ncclInProgress;
    while (status == ncclInProgress) ASSERT_EQ(ncclCommGetAsyncError(communicator, &status), ncclSuccess);
  }
  std::string whole(int rank) const { return std::string(wholes_[rank], kRanks * kSlice); }

  ncclUniqueId id_;
  ncclComm_t communicators_[kRanks];
  cudaStream_t streams_[kRanks];
  char *wholes_[kRanks], *received_[kRanks];
};

TEST_F(Nccl, EveryRankGetsEverySlice) {
  for (int round = 0; round < 3; ++round) {
    for (int rank = 0; rank < kRanks; ++rank) {
      ASSERT_EQ(gather(rank), ncclInProgress);
      wait(communicators_[rank]);
    }
  }
  std::string expected;
  for (int rank = 0; rank < kRanks; ++rank) expected += std::string(kSlice, static_cast<char>('a' + rank));
  for (int rank = 0; rank < kRanks; ++rank) {
    ASSERT_EQ(cudaStreamSynchronize(streams_[rank]), cudaSuccess);
    EXPECT_EQ(whole(rank), expected);
  }
}

TEST_F(Nccl, WhatIsGatheredMayLieApart) {
  std::string expected;
  for (int rank = 0; rank < kRanks; ++rank) {
    expected += std::string(kSlice, static_cast<char>('a' + rank));
    ASSERT_EQ(ncclAllGather(wholes_[rank] + static_cast<std::size_t>(rank) * kSlice, received_[rank], kSlice, ncclUint8,
                            communicators_[rank], streams_[rank]),
              ncclInProgress);
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    ASSERT_EQ(cudaStreamSynchronize(streams_[rank]), cudaSuccess);
    EXPECT_EQ(std::string(received_[rank], kRanks * kSlice), expected);
  }
}

// Ranks 0 and 1 exchange, and rank 2 with itself.
TEST_F(Nccl, NeighboursExchangeAmongThemselves) {
  for (int rank = 0; rank < kRanks; ++rank) {
    std::memset(wholes_[rank], 'a' + rank, kRanks * kSlice);
    std::memset(received_[rank], '-', kRanks * kSlice);
    ASSERT_EQ(rank < 2 ? exchange(rank, 2) : exchange(rank, 3, kSlice, 2), ncclInProgress);
  }
  const std::string expected[] = {"ab-", "ab-", "--c"};
  for (int rank = 0; rank < kRanks; ++rank) {
    ASSERT_EQ(cudaStreamSynchronize(streams_[rank]), cudaSuccess);
    for (int slice = 0; slice < kRanks; ++slice) {
      const auto at = static_cast<std::size_t>(slice);
      EXPECT_EQ(std::string(received_[rank] + at * kSlice, kSlice), std::string(kSlice, expected[rank][at])) << rank;
    }
  }
}

TEST_F(Nccl, WhatNobodyReceivesIsAnErrorOfTheStreams) {
  for (int rank = 0; rank < kRanks; ++rank) ASSERT_EQ(exchange(rank, rank == 0 ? kRanks : 2), ncclInProgress);
  EXPECT_NE(cudaStreamSynchronize(streams_[0]), cudaSuccess);
}

TEST_F(Nccl, EveryRankGetsItsSliceOfEveryRank) {
  for (int rank = 0; rank < kRanks; ++rank) {
    for (int peer = 0; peer < kRanks; ++peer) {
      std::memset(wholes_[rank] + static_cast<std::size_t>(peer) * kSlice, 'a' + 10 * rank + peer, kSlice);
    }
    ASSERT_EQ(exchange(rank), ncclInProgress);
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    wait(communicators_[rank]);
    ASSERT_EQ(cudaStreamSynchronize(streams_[rank]), cudaSuccess);
    std::string expected;
    for (int peer = 0; peer < kRanks; ++peer)
      expected += std::string(kSlice, static_cast<char>('a' + 10 * peer + rank));
    EXPECT_EQ(std::string(received_[rank], kRanks * kSlice), expected);
  }
}

TEST_F(Nccl, RanksThatMakeDifferentCallsAreAnErrorOfTheirStreams) {
  for (int rank = 0; rank < kRanks; ++rank) ASSERT_EQ(rank == 1 ? exchange(rank) : gather(rank), ncclInProgress);
  EXPECT_NE(cudaStreamSynchronize(streams_[0]), cudaSuccess);
}

TEST_F(Nccl, RanksThatDisagreeAreAnErrorOfTheirStreams) {
  for (int rank = 0; rank < kRanks; ++rank) ASSERT_EQ(gather(rank, rank == 1 ? kSlice / 2 : kSlice), ncclInProgress);
  const cudaError_t status = cudaStreamSynchronize(streams_[0]);
  EXPECT_NE(status, cudaSuccess);
  EXPECT_NE(std::string(cudaGetErrorString(status)).find("different numbers of bytes"), std::string::npos);
}

TEST_F(Nccl, MisuseIsRefused) {
  EXPECT_EQ(gather(0, kSlice, /*shift=*/1), ncclInvalidArgument);  // partly in place
  EXPECT_EQ(gather(0, 2 * kSlice), ncclInvalidArgument);           // beyond the memory
  EXPECT_EQ(exchange(0, kRanks, 2 * kSlice), ncclInvalidArgument);
  cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeThreadLocal);
  EXPECT_EQ(gather(0), ncclInvalidUsage);  // a graph would have it
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaSuccess);
  cudaGraphDestroy(graph);
  ASSERT_EQ(gather(0), ncclInProgress);
  EXPECT_EQ(gather(0), ncclInvalidUsage);  // nobody has asked whether the first one is under way
  ncclComm_t more = nullptr;
  EXPECT_EQ(init(0, &more), ncclInvalidUsage);  // outside of a group
  ncclGroupStart();
  EXPECT_EQ(init(0, &more), ncclInvalidUsage);  // there is such a rank
  EXPECT_EQ(init(kRanks, &more), ncclInvalidArgument);
  EXPECT_EQ(init(0, &more, /*blocking=*/1), ncclInvalidArgument);
  ncclGroupEnd();
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  EXPECT_NE(std::string(ncclGetLastError(nullptr)), "");
}

// An abort ends what its own device does; that of another goes on waiting, as a kernel would.
TEST_F(Nccl, AnAbortEndsTheGatherOfItsRankAlone) {
  ASSERT_EQ(gather(0), ncclInProgress);
  ASSERT_EQ(gather(1), ncclInProgress);
  EXPECT_EQ(ncclCommAbort(communicators_[0]), ncclSuccess);
  EXPECT_EQ(cudaStreamSynchronize(streams_[0]), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(streams_[1]), cudaErrorNotReady);
  EXPECT_EQ(gather(0), ncclInvalidArgument);  // it has ended
  EXPECT_EQ(ncclCommAbort(communicators_[0]), ncclInvalidArgument);
}

TEST_F(Nccl, TwoRanksOnOneDeviceAreRefused) {
  ncclUniqueId other;
  ncclGetUniqueId(&other);
  std::swap(id_, other);
  ncclComm_t first = nullptr, second = nullptr;
  ncclGroupStart();
  EXPECT_EQ(init(0, &first), ncclInProgress);
  EXPECT_EQ(init(1, &second), ncclInvalidUsage);
  ncclGroupEnd();
  EXPECT_EQ(ncclCommAbort(first), ncclSuccess);
}

}  // namespace
}  // namespace l2l::test

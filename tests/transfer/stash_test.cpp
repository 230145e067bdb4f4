#include "transfer/stash.h"

#include <gtest/gtest.h>

#include <utility>

#include "tests/support/fault_device.h"

namespace l2l::transfer {
namespace {

using device::BufferView;
using testing::FaultDevice;
using testing::FaultPlan;
using namespace std::chrono_literals;

constexpr Bytes kBytes = 1024;
constexpr int kBlocks = 4, kMicrobatches = 3, kFirstRebuilt = 3;

// Plays the relay's calls: the "layers" write numbers, and what comes back is compared.
class StashTest : public ::testing::TestWithParam<std::string> {
 protected:
  StashTest()
      : device_(std::make_unique<device::HostDevice>(1, 0), plan()),
        link_(device_),
        compute_(device_.create_stream("compute")) {
    if (GetParam() == "device") stash_ = device_stash();
    if (GetParam() == "host") stash_ = host_stash();
    // Items of the second and the fourth block stay.
    if (GetParam() == "split") {
      stash_ = make_split_stash(device_stash(), host_stash(), {false, true, false, true}, 1, kMicrobatches);
    }
    if (GetParam() == "below") {
      stash_ = make_stash_below(host_stash(), make_rotating_stash(cut(device_memory(kMicrobatches + 1)), kMicrobatches),
                                kFirstRebuilt);
    }
    for (int layer = GetParam() == "below" ? kFirstRebuilt - 1 : kBlocks; layer > 0; --layer) {
      for (int u = 0; u < kMicrobatches; ++u) order_.push_back({layer, u});
    }
  }
  ~StashTest() override { link_.quiesce(*compute_); }

  std::unique_ptr<Stash> device_stash() {
    return make_device_stash(cut(device_memory((kBlocks + 1) * kMicrobatches)), 1, kMicrobatches);
  }
  std::unique_ptr<Stash> host_stash() {
    host_.resize(kBytes * kBlocks * kMicrobatches);
    std::vector<BufferView> out = cut(device_memory(kMicrobatches + 1));
    leaving_ = out;
    std::vector<BufferView> back = cut(device_memory(2));
    coming_ = back;
    return make_host_stash(link_, std::move(out), std::move(back), cut({host_.data(), host_.size()}), 1, kMicrobatches,
                           "stash", failure_);
  }

  static FaultPlan plan() {
    FaultPlan plan;
    plan.copy_h2d_delay = plan.copy_d2h_delay = 200us;
    plan.poison = true;
    return plan;
  }

  BufferView device_memory(std::size_t buffers) {
    memory_.push_back(device_.allocate(kBytes * buffers, "buffers"));
    return memory_.back()->view();
  }
  static std::vector<BufferView> cut(BufferView memory) {
    std::vector<BufferView> views;
    for (Bytes at = 0; at < memory.size; at += kBytes) views.push_back(memory.slice(at, kBytes));
    return views;
  }

  // A copy on the compute stream stands for a layer's program.
  void write(BufferView destination, int step, StashItem item) {
    contents_.push_back(std::make_unique<std::vector<std::byte>>(kBytes, content(step, item)));
    device_.copy(*compute_, destination, {contents_.back()->data(), kBytes});
  }
  void expect(BufferView source, int step, StashItem item) {
    std::vector<std::byte> bytes(kBytes);
    device_.copy(*compute_, {bytes.data(), kBytes}, source);
    device_.synchronize(*compute_);
    EXPECT_EQ(bytes, std::vector<std::byte>(kBytes, content(step, item))) << item.layer << " " << item.microbatch;
  }
  static std::byte content(int step, StashItem item) {
    return static_cast<std::byte>(step * 50 + item.layer * kMicrobatches + item.microbatch);
  }

  void forward(int step, bool keep) {
    stash_->begin_forward(keep);
    for (int layer = 0; layer <= kBlocks; ++layer) {
      for (int u = 0; u < kMicrobatches; ++u) {
        if (layer > 0) expect(stash_->read({layer, u}), step, {layer, u});
        write(stash_->make({layer + 1, u}, *compute_), step, {layer + 1, u});
        stash_->made({layer + 1, u}, *compute_, kBytes);
        if (layer > 0) stash_->read_done({layer, u}, *compute_);
      }
    }
  }
  void read_head(int step) {
    for (int u = 0; u < kMicrobatches; ++u) {
      expect(stash_->read({kBlocks + 1, u}), step, {kBlocks + 1, u});
      stash_->read_done({kBlocks + 1, u}, *compute_);
    }
  }
  void backward(int step) {
    stash_->begin_backward(order_, *compute_);
    read_head(step);
    for (const StashItem item : order_) {
      expect(stash_->fetch(item, *compute_), step, item);
      stash_->fetch_done(item, *compute_);
    }
  }

  Failure failure_;
  FaultDevice device_;
  Link link_;
  std::vector<std::unique_ptr<device::Buffer>> memory_;
  std::vector<std::byte> host_;
  std::vector<BufferView> leaving_, coming_;  // of a host stash: what items leave from, and what they come back to
  std::vector<std::unique_ptr<std::vector<std::byte>>> contents_;
  std::unique_ptr<device::Stream> compute_;
  std::unique_ptr<Stash> stash_;
  std::vector<StashItem> order_;
};

TEST_P(StashTest, WhatWasMadeIsReadAndFetched) {
  for (int step = 0; step < 4; ++step) {
    forward(step, /*keep=*/true);
    backward(step);
  }
}

TEST_P(StashTest, EvaluationBetweenStepsMovesNothing) {
  forward(0, /*keep=*/true);
  backward(0);
  const Bytes out = link_.d2h(Traffic::stash), back = link_.h2d(Traffic::stash);
  forward(1, /*keep=*/false);
  read_head(1);
  EXPECT_EQ(link_.d2h(Traffic::stash), out);
  EXPECT_EQ(link_.h2d(Traffic::stash), back);
  forward(2, /*keep=*/true);
  backward(2);
}

TEST_P(StashTest, BytesOverTheLink) {
  forward(0, /*keep=*/true);
  backward(0);
  const Bytes all = kBytes * kBlocks * kMicrobatches;
  const Bytes expected = GetParam() == "host" ? all : GetParam() == "split" ? all / 2 : 0;
  EXPECT_EQ(link_.d2h(Traffic::stash), expected);
  EXPECT_EQ(link_.h2d(Traffic::stash), expected);
}

// The first backward visit finds nothing on its way out, wherever its own item is: it may overwrite what leaves.
TEST_P(StashTest, TheBackwardPassBeginsWhenAllHasLeft) {
  for (int step = 0; step < 4; ++step) {
    forward(step, /*keep=*/true);
    stash_->begin_backward(order_, *compute_);
    read_head(step);
    for (const StashItem item : order_) {
      const BufferView back = stash_->fetch(item, *compute_);
      if (item == order_.front()) {
        for (const BufferView& view : leaving_) device_.fill_zero(*compute_, view);
      }
      expect(back, step, item);
      stash_->fetch_done(item, *compute_);
    }
  }
}

// Nothing comes back before the forward pass is done, wherever the last item is: it may overwrite what that still
// uses.
TEST_P(StashTest, NothingIsFetchedBeforeTheForwardPassIsDone) {
  std::vector<std::byte> bytes(kBytes);
  for (int step = 0; step < 4; ++step) {
    forward(step, /*keep=*/true);
    for (const BufferView& view : coming_) {
      for (int i = 0; i < 50; ++i) device_.copy(*compute_, view, {bytes.data(), kBytes});
    }
    backward(step);
  }
}

INSTANTIATE_TEST_SUITE_P(Places, StashTest, ::testing::Values("host", "device", "split"),
                         [](const auto& info) { return info.param; });

using StashBelow = StashTest;

// The layers that rebuild come first in the backward pass. The first of their visits finds nothing on its way out.
TEST_P(StashBelow, ItemsAreRebuiltAboveAndFetchedBelow) {
  for (int step = 0; step < 4; ++step) {
    forward(step, /*keep=*/true);
    stash_->begin_backward(order_, *compute_);
    bool first = true;
    for (int layer = kBlocks; layer >= kFirstRebuilt; --layer) {
      for (int u = 0; u < kMicrobatches; ++u) {
        const BufferView rebuilt = stash_->make({layer, u}, *compute_);
        if (std::exchange(first, false)) {
          for (const BufferView& view : leaving_) device_.fill_zero(*compute_, view);
        }
        expect(stash_->read({layer + 1, u}), step, {layer + 1, u});
        write(rebuilt, step, {layer, u});
        stash_->read_done({layer + 1, u}, *compute_);
      }
    }
    for (const StashItem item : order_) {
      if (item.layer + 1 == kFirstRebuilt) stash_->read_done({kFirstRebuilt, item.microbatch}, *compute_);
      expect(stash_->fetch(item, *compute_), step, item);
      stash_->fetch_done(item, *compute_);
    }
  }
  const Bytes kept = 4 * kBytes * (kFirstRebuilt - 1) * kMicrobatches;
  EXPECT_EQ(link_.d2h(Traffic::stash), kept);
  EXPECT_EQ(link_.h2d(Traffic::stash), kept);
}

INSTANTIATE_TEST_SUITE_P(Places, StashBelow, ::testing::Values("below"), [](const auto& info) { return info.param; });

}  // namespace
}  // namespace l2l::transfer

// How devices in host memory exchange rows of split layers: they read each other's memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/fault_point.h"
#include "device/barrier.h"
#include "device/tensor_group.h"

namespace l2l::device {

class HostTensorGroup final : public TensorGroup {
 public:
  // `meets`: else that of alone().
  explicit HostTensorGroup(int members, bool meets = true)
      : given_(static_cast<std::size_t>(members)), barrier_(members), meets_(meets) {}

  int members() const override { return static_cast<int>(given_.size()); }
  std::shared_ptr<TensorGroup> alone() const override {
    return std::make_shared<HostTensorGroup>(members(), /*meets=*/false);
  }

  // Gives `own` to the others and calls read(all), with what each member gave, when all have; returns when all have
  // read, so that `own` may change. All members make the same calls in the same order. After abort() it throws what
  // that was given; others may then still read `own`, until their streams are idle.
  template <typename Read>
  void exchange(int member, const std::byte* own, const Read& read) {
    if (!meets_) {
      std::ranges::fill(given_, own);
      return read(std::span<const std::byte* const>(given_));
    }
    given_[static_cast<std::size_t>(member)] = own;
    barrier_.arrive_and_wait();
    read(std::span<const std::byte* const>(given_));
    barrier_.arrive_and_wait();
  }

  void abort(std::exception_ptr cause = nullptr) noexcept override {
    if (!fault_point("tensor.untold")) barrier_.abort(std::move(cause));
  }

 private:
  std::vector<const std::byte*> given_;  // each written by its member before, and read by all after they have met
  Barrier barrier_;
  const bool meets_;
};

}  // namespace l2l::device

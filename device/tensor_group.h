// Devices in host memory over which layers are split (tensor parallelism): they run programs of the same ops at the
// same time, each on its share (compiler::Shard), and meet in the ops that exchange rows.
#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/fault_point.h"
#include "device/barrier.h"

namespace l2l::device {

// Each member is used by one thread at a time; abort() by any.
class TensorGroup {
 public:
  explicit TensorGroup(int members) : given_(static_cast<std::size_t>(members)), barrier_(members) {}

  int members() const { return static_cast<int>(given_.size()); }

  // Gives `own` to the others and calls read(all), with what each member gave, when all have; returns when all have
  // read, so that `own` may change. All members make the same calls in the same order. After abort() it throws what
  // that was given; others may then still read `own`, until their streams are idle.
  template <typename Read>
  void exchange(int member, const std::byte* own, const Read& read) {
    given_[static_cast<std::size_t>(member)] = own;
    barrier_.arrive_and_wait();
    read(std::span<const std::byte* const>(given_));
    barrier_.arrive_and_wait();
  }

  // For a run that has failed on some device, for which the others would wait for ever; `cause`, where it is known, is
  // what they then throw.
  void abort(std::exception_ptr cause = nullptr) noexcept {
    if (!fault_point("tensor.untold")) barrier_.abort(std::move(cause));
  }

 private:
  std::vector<const std::byte*> given_;  // each written by its member before, and read by all after they have met
  Barrier barrier_;
};

// A device's place in its group; no group: its layers are whole.
struct TensorMember {
  std::shared_ptr<TensorGroup> group;
  int index = 0;
};

}  // namespace l2l::device

// One product of the losses, prepared for every size of panel.
#pragma once

#include <vector>

#include "core/bytes.h"
#include "device/kernels/common/partition.h"

namespace l2l::device::kernels {

// A panel is a chunk of rows by a part of the vocabulary: only the last of each may be smaller than the others.
template <typename Plan>
class PanelProduct {
 public:
  // make(rows, tokens) returns the plan for panels of that size.
  PanelProduct(const Partition& rows, const Partition& tokens, const auto& make) : rows_(rows), tokens_(tokens) {
    for (const std::int64_t height : sizes(rows)) {
      for (const std::int64_t width : sizes(tokens)) plans_.push_back(make(height, width));
    }
  }

  const Plan& at(std::int64_t chunk, std::int64_t part) const {
    const std::size_t widths = has_rest(tokens_) ? 2 : 1;
    return plans_[(is_rest(rows_, chunk) ? widths : 0) + (is_rest(tokens_, part) ? 1 : 0)];
  }

  void prepare(int threads) {
    for (Plan& plan : plans_) plan.prepare(threads);
  }

  // The most that a plan's workspace(arguments...) asks for.
  Bytes workspace(auto... arguments) const {
    Bytes bytes = 0;
    for (const Plan& plan : plans_) bytes = std::max(bytes, plan.workspace(arguments...));
    return bytes;
  }

 private:
  static bool has_rest(const Partition& partition) { return partition.total % partition.size != 0; }
  static bool is_rest(const Partition& partition, std::int64_t block) {
    return partition.end(block) - partition.begin(block) < partition.size;
  }
  static std::vector<std::int64_t> sizes(const Partition& partition) {
    std::vector<std::int64_t> result = {partition.size};
    if (has_rest(partition)) result.push_back(partition.total % partition.size);
    return result;
  }

  Partition rows_, tokens_;
  std::vector<Plan> plans_;  // [whole, last chunk of rows][whole, last part of tokens]
};

}  // namespace l2l::device::kernels

// GroupMemory: checksums of the state.
#include <algorithm>

#include "eps/group_memory.h"

namespace l2l::eps {

using optimizers::MomentFormat;
using optimizers::MomentStream;
using optimizers::Streams;

namespace {

void add_moment(StateLanes& lanes, std::size_t moment, const MomentStream& stream, MomentFormat format,
                std::size_t count, optimizers::ChecksumKernel sum) {
  if (stream.codes == nullptr) return;
  sum(lanes.codes[2 + moment], stream.codes, count * optimizers::code_bytes(format));
  if (stream.scales != nullptr) sum(lanes.scales[moment], stream.scales, optimizers::scale_bytes(format, count));
}

}  // namespace

void GroupMemory::cut_frozen() {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (places_[i].gradient >= 0) continue;
    for (std::int64_t first = 0; first < places_[i].elements; first += kBlock) {
      frozen_.push_back({first, std::min(first + kBlock, places_[i].elements), static_cast<std::uint32_t>(i), 0});
    }
  }
}

const Block& GroupMemory::sealed(std::size_t index) const {
  return index < blocks_.size() ? blocks_[index] : frozen_[index - blocks_.size()];
}

void GroupMemory::add(StateLanes& lanes, const Block& block, std::int64_t begin, std::int64_t end) const {
  const optimizers::ChecksumKernel sum = optimizers::checksum_kernel();
  const std::int64_t first = begin - places_[block.parameter].gradient;
  const auto count = static_cast<std::size_t>(end - begin);
  const Streams streams = master_streams(block.parameter, first, count);
  sum(lanes.codes[0], streams.wire, count * size_of(wire_type_));
  if (streams.master != nullptr) {
    sum(lanes.codes[1], streams.master, count * optimizers::master_bytes(master_format()));
  }
  add_moment(lanes, 0, moment_stream(0, block.parameter, first), formats_.first, count, sum);
  add_moment(lanes, 1, moment_stream(1, block.parameter, first), formats_.second, count, sum);
}

void GroupMemory::add_frozen(StateLanes& lanes, const Block& block) const {
  const Bytes size = size_of(wire_type_);
  optimizers::checksum_kernel()(lanes.codes[0],
                                wire_ + static_cast<Bytes>(places_[block.parameter].begin + block.begin) * size,
                                static_cast<Bytes>(block.end - block.begin) * size);
}

StateSums GroupMemory::sums_of(std::size_t index) const {
  StateLanes lanes;
  const Block& block = sealed(index);
  if (index < blocks_.size()) {
    add(lanes, block, block.begin, block.end);
  } else {
    add_frozen(lanes, block);
  }
  return lanes.sums();
}

void GroupMemory::seal() {
  for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i] = sums_of(i);
}

void GroupMemory::seal(std::size_t parameter, std::int64_t first, std::int64_t count) {
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const Block& block = sealed(i);
    const std::int64_t origin = i < blocks_.size() ? places_[parameter].gradient : 0;
    if (block.parameter != parameter || block.begin - origin >= first + count || block.end - origin <= first) continue;
    sums_[i] = sums_of(i);
  }
}

void GroupMemory::check() const {
  for (std::size_t i = 0; i < sums_.size(); ++i) check(i, sums_of(i));
}

void GroupMemory::check(const Block& block, const StateSums& sums) const { check(index_of(block), sums); }

void GroupMemory::check(std::size_t index, const StateSums& sums) const {
  if (sums == sums_[index]) return;
  const auto array = static_cast<StateArray>(std::ranges::mismatch(sums, sums_[index]).in1 - sums.begin());
  const Block& block = sealed(index);
  const std::int64_t origin = index < blocks_.size() ? places_[block.parameter].gradient : 0;
  throw StateMismatch{array, block.parameter, block.begin - origin, block.end - origin};
}

}  // namespace l2l::eps

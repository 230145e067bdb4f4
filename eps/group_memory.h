// Master and moments of one parameter group: flat arrays in one allocation of the store's memory source.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/model_layout.h"
#include "eps/parameter_store.h"

namespace l2l::eps {

// Elements that are worked on together: their gradient and master stay in the first-level cache.
inline constexpr std::int64_t kChunk = 2048;
// Elements of one job of the worker pool. A part of the results' definition: sums are taken block by block.
inline constexpr std::int64_t kBlock = 8 * kChunk;

using ChunkBuffer = std::array<float, kChunk>;

// The elements of one parameter, or those between two cuts. Padding belongs to none, so that it is never read as a
// gradient and its state stays 0.
struct Segment {
  std::int64_t begin = 0, end = 0;
  std::size_t parameter = 0;  // index in the group
  bool decay = false;
};

// Movable. Not synchronised: the hand-over decides who may touch it. Ranges are in elements of the group.
class GroupMemory {
 public:
  static Bytes bytes(const GroupSpec& group, const StoreOptions& options);
  // `cuts`: elements inside the group that no chunk crosses, ascending (ModelLayout::cuts).
  GroupMemory(const GroupSpec& group, const StoreOptions& options, MemorySource& memory,
              std::span<const std::int64_t> cuts = {});

  std::int64_t elements() const { return elements_; }
  std::int64_t blocks() const { return (elements_ + kBlock - 1) / kBlock; }
  const std::vector<Segment>& segments() const { return segments_; }  // ascending
  std::span<const std::byte> wire() const;
  // Whether a weight is infinite on an f16 wire, be it finite in the master or not.
  bool wire_overflows() const;
  std::span<float> moment1(std::int64_t begin, std::size_t count) const;
  std::span<float> moment2(std::int64_t begin, std::size_t count) const;  // empty where the optimizer has none

  // Masters of [begin, begin + size of the span) as fp32.
  void read_master(std::int64_t begin, std::span<float> destination) const;
  void write_master(std::int64_t begin, std::span<const float> source);
  // Masters of [begin, begin + count), at most kChunk elements, to be changed: where they lie, or in `buffer`.
  std::span<float> open_master(std::int64_t begin, std::size_t count, ChunkBuffer& buffer) const;
  // Writes back what was opened, and encodes its wire.
  void close_master(std::int64_t begin, std::span<const float> opened);

  // Calls function(begin, count, segment) for every chunk of the parameters within block `block`, in ascending order.
  // `segment` is an index: blocks and segments both ascend, so block + segment is another one for each pair.
  template <typename F>
  void for_each_chunk(std::int64_t block, const F& function) const;

 private:
  std::span<float> master(std::int64_t begin, std::size_t count) const;  // but for the split one
  std::span<std::uint16_t> upper(std::int64_t begin, std::size_t count) const;
  std::span<std::uint16_t> lower(std::int64_t begin, std::size_t count) const;
  std::size_t first_segment(std::int64_t begin) const;

  std::int64_t elements_;
  DType wire_type_;
  std::vector<Segment> segments_;
  std::byte* wire_ = nullptr;
  std::byte* master_ = nullptr;  // fp32; split master: its low halves; fp32 wire: the wire
  std::byte* moment1_ = nullptr;
  std::byte* moment2_ = nullptr;  // null where the optimizer has none
};

template <typename F>
void GroupMemory::for_each_chunk(std::int64_t block, const F& function) const {
  const std::int64_t block_begin = block * kBlock;
  const std::int64_t block_end = std::min(block_begin + kBlock, elements_);
  for (std::size_t i = first_segment(block_begin); i < segments_.size() && segments_[i].begin < block_end; ++i) {
    const std::int64_t end = std::min(segments_[i].end, block_end);
    for (std::int64_t begin = std::max(segments_[i].begin, block_begin); begin < end; begin += kChunk) {
      function(begin, static_cast<std::size_t>(std::min(kChunk, end - begin)), i);
    }
  }
}

}  // namespace l2l::eps

// Master and moments of one parameter group, each in its format: flat arrays in one allocation of the store's memory
// source.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/model_layout.h"
#include "eps/parameter_store.h"
#include "optimizers/format.h"
#include "optimizers/streams.h"

namespace l2l::eps {

// Elements that are converted together.
inline constexpr std::int64_t kChunk = 2048;
// Elements of one job of the worker pool, from a parameter's first one on. A part of the results' definition: sums are
// taken block by block.
inline constexpr std::int64_t kBlock = 8 * kChunk;
static_assert(kChunk % optimizers::kScaleBlock == 0);

// Up to kBlock elements of one parameter: [begin, end) of the group. Padding belongs to none, so that it is never read
// as a gradient and its state stays 0.
struct Block {
  std::int64_t begin = 0, end = 0;
  std::uint32_t parameter = 0;  // index in the group
  bool decay = false;
};

// Indices of blocks [begin, end).
struct BlockRange {
  std::int64_t begin = 0, end = 0;
};

// A moment of one parameter as it lies in memory. Element i has code i, and scale i / 512 * 16 + i % 16 (int8; else
// there are none). Codes of 512 elements, and their sixteen scales, mean nothing without each other.
struct RawMoment {
  optimizers::MomentFormat format;
  std::span<std::byte> codes;  // elements * optimizers::code_bytes(format)
  std::span<std::uint16_t> scales;
};

// Movable. Not synchronised: the hand-over decides who may touch it. Ranges are in elements.
class GroupMemory {
 public:
  static Bytes bytes(const GroupSpec& group, const StoreOptions& options);
  GroupMemory(const GroupSpec& group, const StoreOptions& options, MemorySource& memory);

  std::int64_t elements() const { return elements_; }
  optimizers::MasterFormat master_format() const { return optimizers::master_format(wire_type_); }
  optimizers::MomentFormats moment_formats() const { return formats_; }
  std::span<const std::byte> wire() const;
  // Whether a weight is infinite on an f16 wire, be it finite in the master or not.
  bool wire_overflows() const;

  std::int64_t blocks() const { return static_cast<std::int64_t>(blocks_.size()); }
  const Block& block(std::int64_t index) const { return blocks_[static_cast<std::size_t>(index)]; }
  // Work of about equal size, in ascending order: one block each, or several of small parameters.
  std::span<const BlockRange> jobs() const { return jobs_; }
  // By parameter, in ascending order.
  std::span<const BlockRange> parameters() const { return parameters_; }
  // The streams of [begin, begin + count) of the group, which lie in one block and begin at a multiple of 512 from its
  // begin, in update number `update` (from 1). Without gradients.
  optimizers::Streams streams(const Block& block, std::int64_t begin, std::int64_t count, std::uint64_t update) const;

  // Masters of [begin, begin + size of the span) of the group as fp32.
  void read_master(std::int64_t begin, std::span<float> destination) const;
  void write_master(std::int64_t begin, std::span<const float> source);
  // Elements [first, first + size of the span) of parameter `parameter` of a moment, 0 or 1, that the optimizer has, as
  // fp32. Writing rounds to nearest, which gives back what was read, but for int8; there blocks of 512 elements that
  // are written in part are rounded again.
  void read_moment(int moment, std::size_t parameter, std::int64_t first, std::span<float> destination) const;
  void write_moment(int moment, std::size_t parameter, std::int64_t first, std::span<const float> source);
  // The same without conversion.
  RawMoment raw_moment(int moment, std::size_t parameter) const;

 private:
  struct Moment {
    std::byte* codes = nullptr;
    std::uint16_t* scales = nullptr;
  };
  struct Place {
    std::int64_t begin = 0, elements = 0;
    std::int64_t scales = 0;  // index of its first one
  };
  void cut_into_blocks(const GroupSpec& group);
  optimizers::MomentFormat format_of(int moment) const { return moment == 0 ? formats_.first : formats_.second; }
  optimizers::Streams master_streams(std::int64_t begin, std::size_t count) const;
  optimizers::MomentStream moment_stream(int moment, std::size_t parameter, std::int64_t first) const;

  std::int64_t elements_;
  DType wire_type_;
  optimizers::MomentFormats formats_;
  std::uint64_t seed_;
  std::uint32_t id_;
  std::vector<Place> places_;  // by parameter
  std::vector<Block> blocks_;
  std::vector<BlockRange> jobs_, parameters_;
  std::byte* wire_ = nullptr;
  std::byte* master_ = nullptr;  // fp32; split master: its low halves; fp32 wire: null
  Moment moments_[2];            // null where the optimizer has none
};

}  // namespace l2l::eps

// Wire, master and moments of one parameter group, each in its format: flat arrays in one allocation. The wire has all
// elements of the group, master and moments those of trained parameters alone, in the order of gradients; of several
// ranks, those of this rank's shard.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/model_layout.h"
#include "eps/parameter_store.h"
#include "eps/shards.h"
#include "eps/state_sums.h"
#include "optimizers/format.h"
#include "optimizers/streams.h"

namespace l2l::eps {

// Elements converted at a time.
inline constexpr std::int64_t kChunk = 2048;
// Elements of a block, counted from a parameter's first. Part of the definition of the results: sums are taken block by
// block.
inline constexpr std::int64_t kBlock = 8 * kChunk;
static_assert(kChunk % optimizers::kScaleBlock == 0);

// Elements [begin, end) of the group's gradients, all of one parameter, at most kBlock. Padding belongs to no block: it
// is never read as a gradient, and its state stays 0.
struct Block {
  std::int64_t begin = 0, end = 0;
  std::uint32_t parameter = 0;  // index in the group
  std::uint32_t rule = 0;       // index in GroupMemory::rules()
};

// How parameters are updated where they differ in it: as in ParameterSpec, with the weight decay, or nothing for the
// optimizer's; `statistic`: not by the optimizer; `decay`: matrices and tables, not norms and biases.
struct UpdateRule {
  float rate = 1;
  std::optional<float> weight_decay;
  float statistic = 0;
  bool decay = true;
  bool operator==(const UpdateRule&) const = default;
};

// Indices of blocks [begin, end).
struct BlockRange {
  std::int64_t begin = 0, end = 0;
};

// A moment of one parameter, from its element `first` on, as it lies in memory. Element first + i has code i, and scale
// i / 512 * 16 + i % 32 / 2 (int8; else there are none). Codes of 512 elements, and their sixteen scales, mean nothing
// without each other.
struct RawMoment {
  optimizers::MomentFormat format;
  std::int64_t first = 0;
  std::span<std::byte> codes;  // elements * optimizers::code_bytes(format)
  std::span<std::uint16_t> scales;
};

// Movable. Not synchronised: the hand-over decides who may touch it.
class GroupMemory {
 public:
  static Bytes bytes(const GroupSpec& group, const StoreOptions& options);
  // Of the lists of blocks, jobs, checksums and, of several ranks, squares of blocks, which lie outside of that memory.
  static Bytes list_bytes(const GroupSpec& group, const StoreOptions& options);
  GroupMemory(const GroupSpec& group, const StoreOptions& options, MemorySource& memory);

  optimizers::MasterFormat master_format() const { return optimizers::master_format(wire_type_); }
  optimizers::MomentFormats moment_formats() const { return formats_; }
  // Elements [begin, end). Throws Error where they are not on this rank (StoreOptions::shard_wire).
  std::span<const std::byte> wire(std::int64_t begin, std::int64_t end) const;
  std::span<std::byte> wire(std::int64_t begin, std::int64_t end);
  std::span<const std::byte> wire() const { return wire(0, elements_); }
  std::span<std::byte> wire() { return wire(0, elements_); }
  bool shards_wire() const { return shards_wire_; }
  // Of the ranks' shards (eps/shards.h).
  std::span<const ShardCut> cuts() const { return cuts_; }
  const ShardCut& shard_begin() const { return cuts_[static_cast<std::size_t>(rank_)]; }
  const ShardCut& shard_end() const { return cuts_[static_cast<std::size_t>(rank_) + 1]; }
  // Master and moments, and if asked for the wire, between two cuts of those of this rank, an array each, empty where
  // there is none.
  std::vector<std::span<std::byte>> state(const ShardCut& begin, const ShardCut& end, bool with_wire);
  // Elements [first, second) of a parameter are in this rank's shard.
  std::pair<std::int64_t, std::int64_t> owned(std::size_t parameter) const;
  // Whether a weight is infinite on an f16 wire, even if finite in the master.
  bool wire_overflows() const;

  // Those of this rank's shard.
  std::int64_t blocks() const { return static_cast<std::int64_t>(blocks_.size()); }
  const Block& block(std::int64_t index) const { return blocks_[static_cast<std::size_t>(index)]; }
  // Jobs of the worker pool, of about equal size: one block, or several blocks of small parameters. Ascending.
  std::span<const BlockRange> jobs() const { return jobs_; }
  // By parameter, in ascending order; a frozen one has none.
  std::span<const BlockRange> parameters() const { return parameters_; }
  std::span<const UpdateRule> rules() const { return rules_; }
  const UpdateRule& rule(const Block& block) const { return rules_[block.rule]; }
  bool has_statistics() const;
  // Where the gradient of a trained parameter begins.
  std::int64_t gradient_begin(std::size_t parameter) const { return places_[parameter].gradient; }
  bool trained(std::size_t parameter) const { return places_[parameter].gradient >= 0; }
  // The streams, without gradients, of elements [begin, begin + count) of the gradients in update number `update` (from
  // 1). They lie in `block` and begin at a multiple of 512 from its begin.
  optimizers::Streams streams(const Block& block, std::int64_t begin, std::int64_t count, std::uint64_t update) const;

  // Elements [first, first + size of the span) of one parameter's master as fp32. The master of a frozen parameter is
  // its wire, to which writing rounds as updates do. What lies in the shard of another rank is written to the wire
  // alone, if that is here, and throws Error where it is read; of moments it is not written.
  void read_master(std::size_t parameter, std::int64_t first, std::span<float> destination) const;
  void write_master(std::size_t parameter, std::int64_t first, std::span<const float> source);
  // The same of one of its moments (0, or 1 if the optimizer has it); only of trained parameters. Writing rounds to
  // nearest: values that were read are written back unchanged, except in int8, where a block of 512 elements that is
  // written in part is rounded again as a whole.
  void read_moment(int moment, std::size_t parameter, std::int64_t first, std::span<float> destination) const;
  void write_moment(int moment, std::size_t parameter, std::int64_t first, std::span<const float> source);
  // The same of what this rank owns of a parameter, without conversion.
  RawMoment raw_moment(int moment, std::size_t parameter) const;

  // Checksums of this rank's state, block by block; those of frozen parameters are blocks of elements of the parameter.
  // All functions do nothing where the store keeps none.
  bool verifies() const { return !sums_.empty(); }
  // Takes those of all blocks, of the blocks with elements [first, first + count) of a parameter, or of one.
  void seal();
  void seal(std::size_t parameter, std::int64_t first, std::int64_t count);
  void seal(const Block& block, const StateSums& sums) { sums_[index_of(block)] = sums; }
  // Throws StateMismatch.
  void check() const;
  void check(const Block& block, const StateSums& sums) const;
  // Adds elements [begin, end) of a block; all pieces but a block's last have a multiple of kSumPiece elements.
  void add(StateLanes& lanes, const Block& block, std::int64_t begin, std::int64_t end) const;

 private:
  struct Moment {
    std::byte* codes = nullptr;
    std::uint16_t* scales = nullptr;
  };
  struct Place {
    std::int64_t begin = 0, elements = 0;  // in the wire
    std::int64_t gradient = 0;             // its begin among gradients, masters and moments; -1: frozen
    std::int64_t scales = 0;               // index of its first one among all ranks'
  };
  void cut_into_blocks(const GroupSpec& group);
  void expect_owned(std::size_t parameter, std::int64_t first, std::size_t count) const;  // throws Error
  std::uint32_t rule_of(const ParameterSpec& parameter);
  void cut_frozen();
  std::size_t index_of(const Block& block) const { return static_cast<std::size_t>(&block - blocks_.data()); }
  const Block& sealed(std::size_t index) const;
  void add_frozen(StateLanes& lanes, const Block& block) const;
  StateSums sums_of(std::size_t index) const;
  void check(std::size_t index, const StateSums& sums) const;
  optimizers::MomentFormat format_of(int moment) const { return moment == 0 ? formats_.first : formats_.second; }
  std::byte* wire_of(std::size_t parameter, std::int64_t first) const;
  optimizers::Streams master_streams(std::size_t parameter, std::int64_t first, std::size_t count) const;
  optimizers::MomentStream moment_stream(int moment, std::size_t parameter, std::int64_t first) const;

  std::int64_t elements_;
  int rank_;
  std::vector<ShardCut> cuts_;
  bool shards_wire_;
  ElementRange wire_here_;  // elements
  DType wire_type_;
  optimizers::MomentFormats formats_;
  std::uint64_t seed_;
  std::uint32_t id_;
  std::vector<Place> places_;  // by parameter
  std::vector<Block> blocks_;
  std::vector<BlockRange> jobs_, parameters_;
  std::vector<UpdateRule> rules_;
  std::vector<Block> frozen_;    // of elements of the parameter; with checksums only
  std::vector<StateSums> sums_;  // of blocks_, then of frozen_; empty: none are kept
  std::byte* wire_ = nullptr;
  std::byte* master_ = nullptr;  // fp32; split master: its low halves; fp32 wire: null
  Moment moments_[2];            // null where the optimizer has none
};

}  // namespace l2l::eps

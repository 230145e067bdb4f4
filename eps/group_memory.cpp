#include "eps/group_memory.h"

#include <algorithm>
#include <array>
#include <utility>

#include "l2l/errors.h"
#include "optimizers/kernels.h"
#include "optimizers/rounding.h"

namespace l2l::eps {
namespace {

using optimizers::kScaleBlock;
using optimizers::MomentFormat;
using optimizers::MomentStream;
using optimizers::Streams;

constexpr Bytes kFieldAlignment = 64;  // a cache line, and the widest vector
// Fields begin this far apart modulo a page, where they can, so that streams that advance together do not share cache
// sets, and no load seems to depend on a store 4096 bytes away (4K aliasing).
constexpr Bytes kSkew = 512, kPage = 4096;

// Byte offsets of the fields within the allocation; 0 for fields that do not exist.
struct Fields {
  Bytes master = 0, codes[2] = {}, scales[2] = {}, end = 0;
};

// Places one field after the other.
class FieldPlacer {
 public:
  explicit FieldPlacer(Bytes end) : end_(end) {}
  Bytes add(Bytes size) {
    if (size == 0) return 0;
    const Bytes first = align_up(end_, kFieldAlignment);
    Bytes begin = first;
    // Of six fields, five may leave no place that is far enough from all: then the farthest.
    for (Bytes place = first; place < first + kPage && distance(begin) < kSkew; place += kFieldAlignment) {
      if (distance(place) > distance(begin)) begin = place;
    }
    begins_[count_++] = begin;
    end_ = begin + size;
    return begin;
  }
  Bytes end() const { return end_; }

 private:
  // To the nearest other field, modulo a page.
  Bytes distance(Bytes begin) const {
    Bytes least = kPage;
    for (int i = 0; i < count_; ++i) {
      const Bytes apart = (begin - begins_[static_cast<std::size_t>(i)]) % kPage;
      least = std::min({least, apart, kPage - apart});
    }
    return least;
  }
  std::array<Bytes, 6> begins_ = {};  // the wire is at 0
  int count_ = 1;
  Bytes end_;
};

std::vector<ShardCut> cuts_of(const GroupSpec& group, const StoreOptions& options) {
  return shard_cuts(group, options.rank.count, options.whole_tensors());
}

// Elements of the wire that are on this rank.
ElementRange wire_here(const GroupSpec& group, const StoreOptions& options, std::span<const ShardCut> cuts) {
  if (options.shards_wire_of(group)) return wire_of_rank(cuts, options.rank.index);
  return {0, group.elements};
}

// Of this rank's shard.
Fields fields_of(const GroupSpec& group, const StoreOptions& options, std::span<const ShardCut> cuts) {
  const auto rank = static_cast<std::size_t>(options.rank.index);
  const ShardCut &begin = cuts[rank], &end = cuts[rank + 1];
  const auto trained = static_cast<Bytes>(end.gradient - begin.gradient);
  const auto scales = static_cast<Bytes>(end.scale - begin.scale) * sizeof(std::uint16_t);
  const MomentFormat formats[2] = {options.moments.first, options.moments.second};
  FieldPlacer placer(static_cast<Bytes>(wire_here(group, options, cuts).count()) * size_of(options.wire));
  Fields fields;
  fields.master = placer.add(trained * optimizers::master_bytes(optimizers::master_format(options.wire)));
  for (int i = 0; i < optimizers::moments_of(options.optimizer); ++i) {
    fields.codes[i] = placer.add(trained * optimizers::code_bytes(formats[i]));
    fields.scales[i] = placer.add(formats[i] == MomentFormat::int8 ? scales : 0);
  }
  fields.end = placer.end();
  return fields;
}

std::size_t count_blocks(const GroupSpec& group, bool trained) {
  std::size_t count = 0;
  for (const ParameterSpec& parameter : group.parameters) {
    if (parameter.trained != trained) continue;
    count += static_cast<std::size_t>((parameter.shape.elements() + kBlock - 1) / kBlock);
  }
  return count;
}

void read_wire(const void* wire, DType type, std::span<float> destination) {
  const auto* const halves = static_cast<const std::uint16_t*>(wire);
  if (type == DType::f32) std::copy_n(static_cast<const float*>(wire), destination.size(), destination.data());
  for (std::size_t i = 0; i < destination.size() && type != DType::f32; ++i) {
    destination[i] = type == DType::bf16 ? to_float(bf16{halves[i]}) : to_float(f16{halves[i]});
  }
}

void write_wire(void* wire, DType type, std::span<const float> source) {
  auto* const halves = static_cast<std::uint16_t*>(wire);
  if (type == DType::f32) std::copy_n(source.data(), source.size(), static_cast<float*>(wire));
  for (std::size_t i = 0; i < source.size() && type != DType::f32; ++i) {
    halves[i] = type == DType::bf16 ? to_bf16(source[i]).bits : to_f16(source[i]).bits;
  }
}

}  // namespace

Bytes GroupMemory::bytes(const GroupSpec& group, const StoreOptions& options) {
  return fields_of(group, options, cuts_of(group, options)).end;
}

Bytes GroupMemory::list_bytes(const GroupSpec& group, const StoreOptions& options) {
  const std::vector<ShardCut> cuts = cuts_of(group, options);
  const auto rank = static_cast<std::size_t>(options.rank.index);
  const auto blocks = static_cast<std::size_t>(cuts[rank + 1].block - cuts[rank].block);
  const std::size_t frozen = options.verify ? count_blocks(group, false) : 0;
  const Bytes of_all = options.rank.count == 1 ? 0 : static_cast<Bytes>(cuts.back().block) * sizeof(double);
  const Bytes sums = of_all + (options.verify ? (blocks + frozen) * sizeof(StateSums) : 0);
  return blocks * (sizeof(Block) + sizeof(BlockRange)) + frozen * sizeof(Block) + sums;
}

GroupMemory::GroupMemory(const GroupSpec& group, const StoreOptions& options, MemorySource& memory)
    : elements_(group.elements),
      rank_(options.rank.index),
      cuts_(cuts_of(group, options)),
      shards_wire_(options.shards_wire_of(group)),
      wire_here_(eps::wire_here(group, options, cuts_)),
      wire_type_(options.wire),
      formats_(options.moments),
      seed_(options.seed),
      id_(group.id) {
  const Fields fields = fields_of(group, options, cuts_);
  std::byte* const base = memory.allocate(fields.end, "weights and moments of " + group.name);
  wire_ = base;
  if (fields.master > 0) master_ = base + fields.master;
  for (int i = 0; i < 2; ++i) {
    if (fields.codes[i] > 0) moments_[i].codes = base + fields.codes[i];
    if (fields.scales[i] > 0) moments_[i].scales = reinterpret_cast<std::uint16_t*>(base + fields.scales[i]);
  }
  cut_into_blocks(group);
  if (!options.verify) return;
  cut_frozen();
  sums_.resize(blocks_.size() + frozen_.size());
}

void GroupMemory::cut_into_blocks(const GroupSpec& group) {
  const auto own = static_cast<std::size_t>(shard_end().block - shard_begin().block);
  blocks_.reserve(own);
  jobs_.reserve(own);  // at most one each
  const std::vector<std::int64_t> gradients = group.gradient_offsets();
  std::int64_t scales = 0, job = 0;  // elements of the last job
  for (std::size_t i = 0; i < group.parameters.size(); ++i) {
    const ParameterSpec& parameter = group.parameters[i];
    const std::int64_t elements = parameter.shape.elements();
    places_.push_back({parameter.offset, elements, gradients[i], scales});
    if (!parameter.trained) {
      parameters_.push_back({blocks(), blocks()});
      continue;
    }
    const std::uint32_t rule = rule_of(parameter);
    scales += static_cast<std::int64_t>(optimizers::scale_bytes(MomentFormat::int8, static_cast<Bytes>(elements)) /
                                        sizeof(std::uint16_t));
    parameters_.push_back({blocks(), blocks()});
    const auto [own_begin, own_end] = owned(i);
    for (std::int64_t first = own_begin; first < own_end; first += kBlock) {
      const std::int64_t count = std::min(kBlock, own_end - first), begin = gradients[i] + first;
      if (jobs_.empty() || job + count > kBlock) {
        jobs_.push_back({blocks(), blocks()});
        job = 0;
      }
      blocks_.push_back({begin, begin + count, static_cast<std::uint32_t>(i), rule});
      jobs_.back().end = parameters_.back().end = blocks();
      job += count;
    }
  }
}

std::uint32_t GroupMemory::rule_of(const ParameterSpec& parameter) {
  UpdateRule rule{parameter.rate, std::nullopt, parameter.statistic, parameter.decay};
  if (parameter.weight_decay >= 0) {
    rule.weight_decay = parameter.weight_decay;
  } else if (!parameter.decay) {
    rule.weight_decay = 0;
  }
  const auto known = std::find(rules_.begin(), rules_.end(), rule);
  const auto index = static_cast<std::uint32_t>(known - rules_.begin());
  if (known == rules_.end()) rules_.push_back(rule);
  return index;
}

bool GroupMemory::has_statistics() const {
  return std::ranges::any_of(rules_, [](const UpdateRule& rule) { return rule.statistic > 0; });
}

std::span<const std::byte> GroupMemory::wire(std::int64_t begin, std::int64_t end) const {
  if (begin == end) return {};
  if (begin < wire_here_.begin || end > wire_here_.end) {
    throw Error("rank " + std::to_string(rank_) + " has elements " + std::to_string(wire_here_.begin) + " to " +
                std::to_string(wire_here_.end) + " of a group's wire; " + std::to_string(begin) + " to " +
                std::to_string(end) + " are asked for");
  }
  const Bytes size = size_of(wire_type_);
  return {wire_ + static_cast<Bytes>(begin - wire_here_.begin) * size, static_cast<Bytes>(end - begin) * size};
}

std::span<std::byte> GroupMemory::wire(std::int64_t begin, std::int64_t end) {
  const std::span<const std::byte> found = std::as_const(*this).wire(begin, end);
  return {const_cast<std::byte*>(found.data()), found.size()};
}

std::pair<std::int64_t, std::int64_t> GroupMemory::owned(std::size_t parameter) const {
  const Place& place = places_[parameter];
  if (place.gradient < 0) return {0, 0};
  const auto within = [&](const ShardCut& cut) {
    return std::clamp<std::int64_t>(cut.gradient - place.gradient, 0, place.elements);
  };
  return {within(shard_begin()), within(shard_end())};
}

void GroupMemory::expect_owned(std::size_t parameter, std::int64_t first, std::size_t count) const {
  const auto [begin, end] = owned(parameter);
  if (count == 0 || (begin <= first && first + static_cast<std::int64_t>(count) <= end)) return;
  throw Error("rank " + std::to_string(rank_) + " has elements " + std::to_string(begin) + " to " +
              std::to_string(end) + " of parameter " + std::to_string(parameter) + " of a group; " +
              std::to_string(count) + " from " + std::to_string(first) + " on are asked for");
}

bool GroupMemory::wire_overflows() const {
  if (wire_type_ != DType::f16) return false;
  const std::span halves(reinterpret_cast<const f16*>(wire_), static_cast<std::size_t>(wire_here_.count()));
  return std::ranges::any_of(halves, [](f16 value) { return (value.bits & 0x7fff) == 0x7c00; });
}

std::byte* GroupMemory::wire_of(std::size_t parameter, std::int64_t first) const {
  return wire_ + static_cast<Bytes>(places_[parameter].begin + first - wire_here_.begin) * size_of(wire_type_);
}

// Of elements from `first` of a parameter.
Streams GroupMemory::master_streams(std::size_t parameter, std::int64_t first, std::size_t count) const {
  const Place& place = places_[parameter];
  Streams streams;
  streams.count = count;
  streams.wire = wire_of(parameter, first);
  if (master_ != nullptr && place.gradient >= 0) {
    const auto element = static_cast<Bytes>(place.gradient + first - shard_begin().gradient);
    streams.master = master_ + element * optimizers::master_bytes(master_format());
  }
  return streams;
}

// `first`: in elements of the parameter; with scales a multiple of 512.
MomentStream GroupMemory::moment_stream(int moment, std::size_t parameter, std::int64_t first) const {
  const Place& place = places_[parameter];
  const Moment& field = moments_[moment];
  MomentStream stream;
  if (field.codes == nullptr) return stream;
  const auto element = static_cast<Bytes>(place.gradient + first - shard_begin().gradient);
  stream.codes = field.codes + element * optimizers::code_bytes(format_of(moment));
  if (field.scales != nullptr) stream.scales = field.scales + (place.scales + first / 32 - shard_begin().scale);
  return stream;
}

Streams GroupMemory::streams(const Block& block, std::int64_t begin, std::int64_t count, std::uint64_t update) const {
  const std::int64_t first = begin - places_[block.parameter].gradient;
  Streams streams = master_streams(block.parameter, first, static_cast<std::size_t>(count));
  streams.first = moment_stream(0, block.parameter, first);
  streams.second = moment_stream(1, block.parameter, first);
  streams.index = static_cast<std::uint32_t>(begin);
  streams.key = optimizers::rounding_key(seed_, id_, update, static_cast<std::uint32_t>(begin >> 32));
  return streams;
}

void GroupMemory::read_master(std::size_t parameter, std::int64_t first, std::span<float> destination) const {
  if ((master_ != nullptr || shards_wire()) && trained(parameter)) expect_owned(parameter, first, destination.size());
  const Streams streams = master_streams(parameter, first, destination.size());
  const auto format = static_cast<std::size_t>(master_format());
  if (trained(parameter)) return optimizers::kernels().load_master[format](streams, destination.data());
  read_wire(streams.wire, wire_type_, destination);
}

void GroupMemory::write_master(std::size_t parameter, std::int64_t first, std::span<const float> source) {
  if (!trained(parameter)) return write_wire(wire_of(parameter, first), wire_type_, source);
  std::array<float, kChunk> masters_of_others;
  const auto [own_begin, own_end] = owned(parameter);
  const std::int64_t end = first + static_cast<std::int64_t>(source.size());
  while (first < end) {
    const bool own = own_begin <= first && first < own_end;
    const std::int64_t border = own ? own_end : first < own_begin ? own_begin : end;
    const std::int64_t until = std::min({border, end, own ? end : first + kChunk});
    const auto count = static_cast<std::size_t>(until - first);
    Streams streams;
    if (own) {
      streams = master_streams(parameter, first, count);
    } else if (!shards_wire()) {
      streams.count = count;
      streams.wire = wire_of(parameter, first);
      streams.master = masters_of_others.data();
    }
    if (streams.count > 0) {
      optimizers::kernels().store_master[static_cast<std::size_t>(master_format())](streams, source.data());
    }
    source = source.subspan(count);
    first = until;
  }
}

void GroupMemory::read_moment(int moment, std::size_t parameter, std::int64_t first,
                              std::span<float> destination) const {
  expect_owned(parameter, first, destination.size());
  if (destination.empty()) return;
  const MomentFormat format = format_of(moment);
  const auto decode = optimizers::kernels().decode[moment][static_cast<std::size_t>(format)];
  if (format != MomentFormat::int8) {
    return decode(moment_stream(moment, parameter, first), destination.size(), destination.data());
  }
  constexpr std::int64_t kWhole = kScaleBlock;
  std::array<float, kScaleBlock> block;
  const std::int64_t end = first + static_cast<std::int64_t>(destination.size());
  for (std::int64_t begin = first / kWhole * kWhole; begin < end; begin += kWhole) {
    const std::int64_t count = std::min(kWhole, places_[parameter].elements - begin);
    decode(moment_stream(moment, parameter, begin), static_cast<std::size_t>(count), block.data());
    const std::int64_t from = std::max(begin, first), to = std::min(begin + count, end);
    std::copy(block.data() + (from - begin), block.data() + (to - begin), destination.data() + (from - first));
  }
}

void GroupMemory::write_moment(int moment, std::size_t parameter, std::int64_t first, std::span<const float> source) {
  const auto [own_begin, own_end] = owned(parameter);
  const std::int64_t kept = std::max(first, own_begin);
  const std::int64_t kept_end = std::min(first + static_cast<std::int64_t>(source.size()), own_end);
  if (kept >= kept_end) return;
  source = source.subspan(static_cast<std::size_t>(kept - first), static_cast<std::size_t>(kept_end - kept));
  first = kept;
  const MomentFormat format = format_of(moment);
  const auto encode = optimizers::kernels().encode[moment][static_cast<std::size_t>(format)];
  if (format != MomentFormat::int8) {
    return encode(moment_stream(moment, parameter, first), source.size(), source.data());
  }
  constexpr std::int64_t kWhole = kScaleBlock;
  std::array<float, kScaleBlock> block;
  const std::int64_t end = first + static_cast<std::int64_t>(source.size());
  for (std::int64_t begin = first / kWhole * kWhole; begin < end; begin += kWhole) {
    const std::int64_t count = std::min(kWhole, places_[parameter].elements - begin);
    const std::int64_t from = std::max(begin, first), to = std::min(begin + count, end);
    if (to - from < count) read_moment(moment, parameter, begin, {block.data(), static_cast<std::size_t>(count)});
    std::copy(source.data() + (from - first), source.data() + (to - first), block.data() + (from - begin));
    encode(moment_stream(moment, parameter, begin), static_cast<std::size_t>(count), block.data());
  }
}

RawMoment GroupMemory::raw_moment(int moment, std::size_t parameter) const {
  const MomentFormat format = format_of(moment);
  const auto [first, end] = owned(parameter);
  const MomentStream stream = moment_stream(moment, parameter, first);
  const Bytes elements = static_cast<Bytes>(end - first);
  return {format,
          first,
          {static_cast<std::byte*>(stream.codes), elements * optimizers::code_bytes(format)},
          {stream.scales, optimizers::scale_bytes(format, elements) / sizeof(std::uint16_t)}};
}

std::vector<std::span<std::byte>> GroupMemory::state(const ShardCut& begin, const ShardCut& end, bool with_wire) {
  const auto elements = static_cast<Bytes>(end.gradient - begin.gradient);
  const auto before = static_cast<Bytes>(begin.gradient - shard_begin().gradient);
  std::vector<std::span<std::byte>> arrays;
  const auto add = [&](std::byte* data, Bytes size) {
    arrays.push_back(data == nullptr ? std::span<std::byte>() : std::span(data + before * size, elements * size));
  };
  add(master_, optimizers::master_bytes(master_format()));
  for (int i = 0; i < 2; ++i) {
    add(moments_[i].codes, optimizers::code_bytes(format_of(i)));
    if (moments_[i].scales == nullptr) continue;
    const std::span scales(moments_[i].scales + (begin.scale - shard_begin().scale),
                           static_cast<std::size_t>(end.scale - begin.scale));
    arrays.push_back(std::as_writable_bytes(scales));
  }
  if (with_wire) arrays.push_back(wire(begin.wire, end.wire));
  return arrays;
}

}  // namespace l2l::eps

#include "eps/group_memory.h"

#include <algorithm>
#include <array>

#include "optimizers/kernels.h"
#include "optimizers/rounding.h"

namespace l2l::eps {
namespace {

using optimizers::kScaleBlock;
using optimizers::MomentFormat;
using optimizers::MomentStream;
using optimizers::Streams;

constexpr Bytes kFieldAlignment = 64;  // a cache line, and the widest vector
// Fields begin at least this far apart modulo a page, so that streams that advance together do not share cache sets,
// and no load seems to depend on a store 4096 bytes away (4K aliasing).
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
    Bytes begin = align_up(end_, kFieldAlignment);
    while (meets_another(begin)) begin += kFieldAlignment;
    begins_[count_++] = begin;
    end_ = begin + size;
    return begin;
  }
  Bytes end() const { return end_; }

 private:
  bool meets_another(Bytes begin) const {
    return std::any_of(begins_.begin(), begins_.begin() + count_, [&](Bytes other) {
      const Bytes apart = (begin - other) % kPage;
      return std::min(apart, kPage - apart) < kSkew;
    });
  }
  std::array<Bytes, 6> begins_ = {};  // the wire is at 0
  int count_ = 1;
  Bytes end_;
};

Bytes scales_of(MomentFormat format, const GroupSpec& group) {
  Bytes bytes = 0;
  for (const ParameterSpec& parameter : group.parameters) {
    if (parameter.trained) bytes += optimizers::scale_bytes(format, static_cast<Bytes>(parameter.shape.elements()));
  }
  return bytes;
}

Fields fields_of(const GroupSpec& group, const StoreOptions& options) {
  const Bytes trained = static_cast<Bytes>(group.gradient_elements());
  const MomentFormat formats[2] = {options.moments.first, options.moments.second};
  FieldPlacer placer(static_cast<Bytes>(group.elements) * size_of(options.wire));
  Fields fields;
  fields.master = placer.add(trained * optimizers::master_bytes(optimizers::master_format(options.wire)));
  for (int i = 0; i < optimizers::moments_of(options.optimizer); ++i) {
    fields.codes[i] = placer.add(trained * optimizers::code_bytes(formats[i]));
    fields.scales[i] = placer.add(scales_of(formats[i], group));
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

Bytes GroupMemory::bytes(const GroupSpec& group, const StoreOptions& options) { return fields_of(group, options).end; }

Bytes GroupMemory::list_bytes(const GroupSpec& group, const StoreOptions& options) {
  const std::size_t blocks = count_blocks(group, true), frozen = options.verify ? count_blocks(group, false) : 0;
  const Bytes sums = options.verify ? (blocks + frozen) * sizeof(StateSums) : 0;
  return blocks * (sizeof(Block) + sizeof(BlockRange)) + frozen * sizeof(Block) + sums;
}

GroupMemory::GroupMemory(const GroupSpec& group, const StoreOptions& options, MemorySource& memory)
    : elements_(group.elements),
      wire_type_(options.wire),
      formats_(options.moments),
      seed_(options.seed),
      id_(group.id) {
  const Fields fields = fields_of(group, options);
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
  blocks_.reserve(count_blocks(group, true));
  jobs_.reserve(count_blocks(group, true));  // at most one each
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
    for (std::int64_t first = 0; first < elements; first += kBlock) {
      const std::int64_t count = std::min(kBlock, elements - first), begin = gradients[i] + first;
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
  UpdateRule rule{parameter.rate, std::nullopt, parameter.statistic};
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

std::span<const std::byte> GroupMemory::wire() const {
  return {wire_, static_cast<std::size_t>(elements_) * size_of(wire_type_)};
}

bool GroupMemory::wire_overflows() const {
  if (wire_type_ != DType::f16) return false;
  const std::span halves(reinterpret_cast<const f16*>(wire_), static_cast<std::size_t>(elements_));
  return std::ranges::any_of(halves, [](f16 value) { return (value.bits & 0x7fff) == 0x7c00; });
}

// Of elements from `first` of a parameter.
Streams GroupMemory::master_streams(std::size_t parameter, std::int64_t first, std::size_t count) const {
  const Place& place = places_[parameter];
  Streams streams;
  streams.count = count;
  streams.wire = wire_ + static_cast<Bytes>(place.begin + first) * size_of(wire_type_);
  if (master_ != nullptr) {
    streams.master = master_ + static_cast<Bytes>(place.gradient + first) * optimizers::master_bytes(master_format());
  }
  return streams;
}

// `first`: in elements of the parameter; with scales a multiple of 512.
MomentStream GroupMemory::moment_stream(int moment, std::size_t parameter, std::int64_t first) const {
  const Place& place = places_[parameter];
  const Moment& field = moments_[moment];
  MomentStream stream;
  if (field.codes == nullptr) return stream;
  stream.codes = field.codes + static_cast<Bytes>(place.gradient + first) * optimizers::code_bytes(format_of(moment));
  if (field.scales != nullptr) stream.scales = field.scales + place.scales + first / 32;
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
  const Streams streams = master_streams(parameter, first, destination.size());
  const auto format = static_cast<std::size_t>(master_format());
  if (trained(parameter)) return optimizers::kernels().load_master[format](streams, destination.data());
  read_wire(streams.wire, wire_type_, destination);
}

void GroupMemory::write_master(std::size_t parameter, std::int64_t first, std::span<const float> source) {
  const Streams streams = master_streams(parameter, first, source.size());
  const auto format = static_cast<std::size_t>(master_format());
  if (trained(parameter)) return optimizers::kernels().store_master[format](streams, source.data());
  write_wire(streams.wire, wire_type_, source);
}

void GroupMemory::read_moment(int moment, std::size_t parameter, std::int64_t first,
                              std::span<float> destination) const {
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
  const MomentStream stream = moment_stream(moment, parameter, 0);
  const Bytes elements = static_cast<Bytes>(places_[parameter].elements);
  return {format,
          {static_cast<std::byte*>(stream.codes), elements * optimizers::code_bytes(format)},
          {stream.scales, optimizers::scale_bytes(format, elements) / sizeof(std::uint16_t)}};
}

}  // namespace l2l::eps

#include "eps/group_memory.h"

#include <array>

#include "optimizers/split_master.h"

namespace l2l::eps {
namespace {

constexpr Bytes kFieldAlignment = 64;  // a cache line, and the widest vector

// Offsets of the fields within the allocation, in bytes.
struct Fields {
  Bytes low = 0, moment1 = 0, moment2 = 0, end = 0;
};

Fields fields_of(const GroupSpec& group, DType wire) {
  const Bytes elements = static_cast<Bytes>(group.elements);
  Fields fields;
  fields.low = align_up(elements * size_of(wire), kFieldAlignment);
  fields.moment1 = fields.low + (wire == DType::bf16 ? align_up(elements * sizeof(std::uint16_t), kFieldAlignment) : 0);
  fields.moment2 = fields.moment1 + align_up(elements * sizeof(float), kFieldAlignment);
  fields.end = fields.moment2 + elements * sizeof(float);
  return fields;
}

std::vector<Segment> cut(const std::vector<Segment>& whole, std::span<const std::int64_t> cuts) {
  std::vector<Segment> segments;
  for (Segment segment : whole) {
    for (const std::int64_t place : cuts) {
      if (place <= segment.begin || place >= segment.end) continue;
      segments.push_back({segment.begin, place, segment.decay});
      segment.begin = place;
    }
    segments.push_back(segment);
  }
  return segments;
}

std::vector<Segment> segments_of(const GroupSpec& group) {
  std::vector<Segment> segments;
  for (const ParameterSpec& parameter : group.parameters) {
    const std::int64_t end = parameter.offset + parameter.shape.elements();
    if (!segments.empty() && segments.back().end == parameter.offset && segments.back().decay == parameter.decay) {
      segments.back().end = end;
    } else {
      segments.push_back({parameter.offset, end, parameter.decay});
    }
  }
  return segments;
}

template <typename T>
std::span<T> view(std::byte* field, std::int64_t begin, std::size_t count) {
  return {reinterpret_cast<T*>(field) + begin, count};
}

}  // namespace

Bytes GroupMemory::bytes(const GroupSpec& group, DType wire) { return fields_of(group, wire).end; }

GroupMemory::GroupMemory(const GroupSpec& group, DType wire, MemorySource& memory, std::span<const std::int64_t> cuts)
    : elements_(group.elements), wire_type_(wire), segments_(cut(segments_of(group), cuts)) {
  const Fields fields = fields_of(group, wire);
  std::byte* const base = memory.allocate(fields.end, "weights and moments of " + group.name);
  wire_ = base;
  low_ = base + fields.low;
  moment1_ = base + fields.moment1;
  moment2_ = base + fields.moment2;
}

std::span<const std::byte> GroupMemory::wire() const {
  return {wire_, static_cast<std::size_t>(elements_) * size_of(wire_type_)};
}

std::span<float> GroupMemory::moment1(std::int64_t begin, std::size_t count) const {
  return view<float>(moment1_, begin, count);
}

std::span<float> GroupMemory::moment2(std::int64_t begin, std::size_t count) const {
  return view<float>(moment2_, begin, count);
}

std::span<float> GroupMemory::master(std::int64_t begin, std::size_t count) const {
  return view<float>(wire_, begin, count);
}

std::span<std::uint16_t> GroupMemory::upper(std::int64_t begin, std::size_t count) const {
  return view<std::uint16_t>(wire_, begin, count);
}

std::span<std::uint16_t> GroupMemory::lower(std::int64_t begin, std::size_t count) const {
  return view<std::uint16_t>(low_, begin, count);
}

void GroupMemory::read_master(std::int64_t begin, std::span<float> destination) const {
  const std::size_t count = destination.size();
  if (wire_type_ == DType::bf16) {
    optimizers::join(upper(begin, count), lower(begin, count), destination);
  } else {
    std::ranges::copy(master(begin, count), destination.begin());
  }
}

void GroupMemory::write_master(std::int64_t begin, std::span<const float> source) {
  const std::size_t count = source.size();
  if (wire_type_ == DType::bf16) {
    optimizers::split(source, upper(begin, count), lower(begin, count));
  } else {
    std::ranges::copy(source, master(begin, count).begin());
  }
}

void GroupMemory::update(std::int64_t begin, std::span<const float> gradient,
                         const optimizers::AdamWSettings& settings) {
  const std::size_t count = gradient.size();
  const std::span<float> first = moment1(begin, count), second = moment2(begin, count);
  if (wire_type_ == DType::f32) {
    optimizers::adamw(master(begin, count), first, second, gradient, settings);
    return;
  }
  std::array<float, kChunk> joined;
  const std::span<float> weights(joined.data(), count);
  read_master(begin, weights);
  optimizers::adamw(weights, first, second, gradient, settings);
  write_master(begin, weights);
}

std::size_t GroupMemory::first_segment(std::int64_t begin) const {
  const auto after = [](std::int64_t element, const Segment& segment) { return element < segment.end; };
  return static_cast<std::size_t>(std::upper_bound(segments_.begin(), segments_.end(), begin, after) -
                                  segments_.begin());
}

}  // namespace l2l::eps

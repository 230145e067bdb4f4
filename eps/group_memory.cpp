#include "eps/group_memory.h"

#include "core/half_rows.h"
#include "optimizers/split_master.h"

namespace l2l::eps {
namespace {

constexpr Bytes kFieldAlignment = 64;  // a cache line, and the widest vector

// Offsets of the fields within the allocation, in bytes.
struct Fields {
  Bytes master = 0, moment1 = 0, moment2 = 0, end = 0;
};

// Bytes per element of what makes the wire the exact fp32 master.
Bytes master_bytes(DType wire) {
  if (wire == DType::f32) return 0;
  return wire == DType::bf16 ? sizeof(std::uint16_t) : sizeof(float);
}

Fields fields_of(const GroupSpec& group, const StoreOptions& options) {
  const Bytes elements = static_cast<Bytes>(group.elements);
  const Bytes moment = elements * sizeof(float);
  Fields fields;
  fields.master = align_up(elements * size_of(options.wire), kFieldAlignment);
  fields.moment1 = fields.master + align_up(elements * master_bytes(options.wire), kFieldAlignment);
  fields.end = fields.moment1 + moment;
  if (optimizers::moments_of(options.optimizer) == 1) return fields;
  fields.moment2 = align_up(fields.end, kFieldAlignment);
  fields.end = fields.moment2 + moment;
  return fields;
}

std::vector<Segment> segments_of(const GroupSpec& group, std::span<const std::int64_t> cuts) {
  std::vector<Segment> segments;
  for (std::size_t i = 0; i < group.parameters.size(); ++i) {
    const ParameterSpec& parameter = group.parameters[i];
    Segment segment{parameter.offset, parameter.offset + parameter.shape.elements(), i, parameter.decay};
    for (const std::int64_t place : cuts) {
      if (place <= segment.begin || place >= segment.end) continue;
      segments.push_back({segment.begin, place, i, parameter.decay});
      segment.begin = place;
    }
    segments.push_back(segment);
  }
  return segments;
}

template <typename T>
std::span<T> view(std::byte* field, std::int64_t begin, std::size_t count) {
  return {reinterpret_cast<T*>(field) + begin, count};
}

}  // namespace

Bytes GroupMemory::bytes(const GroupSpec& group, const StoreOptions& options) { return fields_of(group, options).end; }

GroupMemory::GroupMemory(const GroupSpec& group, const StoreOptions& options, MemorySource& memory,
                         std::span<const std::int64_t> cuts)
    : elements_(group.elements), wire_type_(options.wire), segments_(segments_of(group, cuts)) {
  const Fields fields = fields_of(group, options);
  std::byte* const base = memory.allocate(fields.end, "weights and moments of " + group.name);
  wire_ = base;
  master_ = wire_type_ == DType::f32 ? wire_ : base + fields.master;
  moment1_ = base + fields.moment1;
  if (fields.moment2 > 0) moment2_ = base + fields.moment2;
}

std::span<const std::byte> GroupMemory::wire() const {
  return {wire_, static_cast<std::size_t>(elements_) * size_of(wire_type_)};
}

bool GroupMemory::wire_overflows() const {
  if (wire_type_ != DType::f16) return false;
  const std::span<const f16> halves = view<f16>(wire_, 0, static_cast<std::size_t>(elements_));
  return std::ranges::any_of(halves, [](f16 value) { return (value.bits & 0x7fff) == 0x7c00; });
}

std::span<float> GroupMemory::moment1(std::int64_t begin, std::size_t count) const {
  return view<float>(moment1_, begin, count);
}

std::span<float> GroupMemory::moment2(std::int64_t begin, std::size_t count) const {
  if (moment2_ == nullptr) return {};
  return view<float>(moment2_, begin, count);
}

std::span<float> GroupMemory::master(std::int64_t begin, std::size_t count) const {
  return view<float>(master_, begin, count);
}

std::span<std::uint16_t> GroupMemory::upper(std::int64_t begin, std::size_t count) const {
  return view<std::uint16_t>(wire_, begin, count);
}

std::span<std::uint16_t> GroupMemory::lower(std::int64_t begin, std::size_t count) const {
  return view<std::uint16_t>(master_, begin, count);
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
    return;
  }
  const std::span<float> masters = master(begin, count);
  if (masters.data() != source.data()) std::ranges::copy(source, masters.begin());
  if (wire_type_ == DType::f16) {
    to_f16(masters.data(), view<f16>(wire_, begin, count).data(), static_cast<std::int64_t>(count));
  }
}

std::span<float> GroupMemory::open_master(std::int64_t begin, std::size_t count, ChunkBuffer& buffer) const {
  if (wire_type_ != DType::bf16) return master(begin, count);
  const std::span<float> joined(buffer.data(), count);
  read_master(begin, joined);
  return joined;
}

void GroupMemory::close_master(std::int64_t begin, std::span<const float> opened) {
  if (wire_type_ != DType::f32) write_master(begin, opened);
}

std::size_t GroupMemory::first_segment(std::int64_t begin) const {
  const auto after = [](std::int64_t element, const Segment& segment) { return element < segment.end; };
  return static_cast<std::size_t>(std::upper_bound(segments_.begin(), segments_.end(), begin, after) -
                                  segments_.begin());
}

}  // namespace l2l::eps

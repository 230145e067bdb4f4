// Storage formats of a parameter's master and moments. Immutable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/bytes.h"
#include "core/dtype.h"

namespace l2l::optimizers {

// bf16: rounded stochastically. int8: one byte per element, with a bf16 scale per lane of a block of 512 elements
// (optimizers/formats/int8.h).
enum class MomentFormat : std::uint8_t { f32, bf16, int8 };
inline constexpr std::size_t kMomentFormats = 3;

// Formats of the two moments. An optimizer with one moment uses `first`.
struct MomentFormats {
  MomentFormat first = MomentFormat::f32, second = MomentFormat::f32;
  bool operator==(const MomentFormats&) const = default;
};

inline constexpr std::size_t kMomentPairs = 4;
// All choices: "fp32", "bf16_first" (the second in fp32), "bf16", "int8".
struct NamedMomentFormats {
  std::string_view name;
  MomentFormats formats;
};
inline constexpr NamedMomentFormats kMomentFormatNames[kMomentPairs] = {
    {"fp32", {}},
    {"bf16_first", {MomentFormat::bf16, MomentFormat::f32}},
    {"bf16", {MomentFormat::bf16, MomentFormat::bf16}},
    {"int8", {MomentFormat::int8, MomentFormat::int8}}};

// Throws BadInput with the choices.
MomentFormats parse_moment_formats(std::string_view name);
// Position in kMomentFormatNames. Throws BadInput if the pair is not there.
std::size_t index_of(MomentFormats formats);
std::string_view name_of(MomentFormats formats);
std::string_view name_of(MomentFormat format);  // "fp32", "bf16", "int8"

// Elements that share scales (int8). Runs of a kernel begin at a multiple of it from their parameter's first element.
inline constexpr std::size_t kScaleBlock = 512;
inline constexpr std::size_t kScalesPerBlock = 16;

// Bytes per element, without scales.
constexpr Bytes code_bytes(MomentFormat format) {
  return format == MomentFormat::f32 ? 4 : format == MomentFormat::bf16 ? 2 : 1;
}
// Bytes of the scales of one moment of a parameter.
constexpr Bytes scale_bytes(MomentFormat format, Bytes elements) {
  if (format != MomentFormat::int8) return 0;
  return (elements + kScaleBlock - 1) / kScaleBlock * kScalesPerBlock * sizeof(std::uint16_t);
}
// f32: the wire is the master. split: the wire is its upper half, rounded to nearest with ties away; its low 16 bits,
// stored beside the wire, restore it exactly. beside_f16: an fp32 master beside an f16 wire.
enum class MasterFormat : std::uint8_t { f32, split, beside_f16 };
inline constexpr std::size_t kMasterFormats = 3;

// `wire`: f32, bf16 or f16.
constexpr MasterFormat master_format(DType wire) {
  return wire == DType::f32 ? MasterFormat::f32 : wire == DType::bf16 ? MasterFormat::split : MasterFormat::beside_f16;
}
// Whether a run may have gradients of this type with this master: fp16 gradients need a scaled loss, which only fp16
// compute has, and then the wire is f16. fp32 and bf16 gradients go with every master.
constexpr bool has_update_kernels(DType gradients, MasterFormat master) {
  return gradients != DType::f16 || master == MasterFormat::beside_f16;
}
// Bytes per element stored besides the wire.
constexpr Bytes master_bytes(MasterFormat format) {
  return format == MasterFormat::f32 ? 0 : format == MasterFormat::split ? 2 : 4;
}

}  // namespace l2l::optimizers

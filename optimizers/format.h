// Formats of the state: how the master and the moments of a parameter lie in memory. Immutable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/bytes.h"
#include "core/dtype.h"

namespace l2l::optimizers {

// bf16: rounded stochastically. int8: codes of a byte with a bf16 scale per lane of a block of 512 elements.
enum class MomentFormat : std::uint8_t { f32, bf16, int8 };
inline constexpr std::size_t kMomentFormats = 3;

// What a run keeps its two moments in. An optimizer with one moment uses `first` alone.
struct MomentFormats {
  MomentFormat first = MomentFormat::f32, second = MomentFormat::f32;
  bool operator==(const MomentFormats&) const = default;
};

inline constexpr std::size_t kMomentPairs = 4;
// Every choice there is: "fp32", "bf16_first" (the second in fp32), "bf16", "int8".
struct NamedMomentFormats {
  std::string_view name;
  MomentFormats formats;
};
inline constexpr NamedMomentFormats kMomentFormatNames[kMomentPairs] = {
    {"fp32", {}},
    {"bf16_first", {MomentFormat::bf16, MomentFormat::f32}},
    {"bf16", {MomentFormat::bf16, MomentFormat::bf16}},
    {"int8", {MomentFormat::int8, MomentFormat::int8}}};

// Throws BadInput naming the choices.
MomentFormats parse_moment_formats(std::string_view name);
// Position in kMomentFormatNames. Throws BadInput where the pair is none of them.
std::size_t index_of(MomentFormats formats);
std::string_view name_of(MomentFormats formats);
std::string_view name_of(MomentFormat format);  // "fp32", "bf16", "int8"

// Elements that share scales (int8); runs of a kernel begin at a multiple of it from their parameter's first element.
inline constexpr std::size_t kScaleBlock = 512;
inline constexpr std::size_t kScalesPerBlock = 16;

// Bytes of one moment of a parameter with `elements` elements: its codes, and its scales apart.
constexpr Bytes code_bytes(MomentFormat format) {
  return format == MomentFormat::f32 ? 4 : format == MomentFormat::bf16 ? 2 : 1;
}
constexpr Bytes scale_bytes(MomentFormat format, Bytes elements) {
  if (format != MomentFormat::int8) return 0;
  return (elements + kScaleBlock - 1) / kScaleBlock * kScalesPerBlock * sizeof(std::uint16_t);
}
// Largest error of one rounding, relative to the value (bf16) or to the largest magnitude of its lane in the block
// (int8; of the first moment). The second moment's int8 error is relative to the value's fourth root: formats/int8.h.
constexpr double error_bound(MomentFormat format) {
  return format == MomentFormat::f32 ? 0 : format == MomentFormat::bf16 ? 0x1p-7 : 2.0 / 127 + 0x1p-7;
}

// f32: the wire is the master. split: the wire is its upper half, rounded to nearest with ties away, and the low 16
// bits that make it exact again lie beside it. beside_f16: an fp32 master beside an f16 wire.
enum class MasterFormat : std::uint8_t { f32, split, beside_f16 };
inline constexpr std::size_t kMasterFormats = 3;

// `wire` is f32, bf16 or f16.
constexpr MasterFormat master_format(DType wire) {
  return wire == DType::f32 ? MasterFormat::f32 : wire == DType::bf16 ? MasterFormat::split : MasterFormat::beside_f16;
}
// Bytes per element of what makes the wire the exact fp32 master.
constexpr Bytes master_bytes(MasterFormat format) {
  return format == MasterFormat::f32 ? 0 : format == MasterFormat::split ? 2 : 4;
}

}  // namespace l2l::optimizers

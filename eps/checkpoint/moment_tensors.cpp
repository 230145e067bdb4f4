#include "eps/checkpoint/moment_tensors.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "core/dtype.h"
#include "optimizers/kernels.h"

namespace l2l::eps {

using optimizers::MomentFormat;
using optimizers::MomentStream;

namespace {

static_assert(kPiece % optimizers::kScaleBlock == 0);

// Scales of the first `elements` elements of a parameter.
std::int64_t scales_of(std::int64_t elements) {
  const Bytes bytes = optimizers::scale_bytes(MomentFormat::int8, static_cast<Bytes>(elements));
  return static_cast<std::int64_t>(bytes / sizeof(std::uint16_t));
}

// Earlier codes: the first moment is q |q| / 127^2 of its scale, the second q^4 / 255^4.
float earlier_value(StatePart moment, std::byte code, bf16 scale) {
  const auto q = static_cast<float>(moment == StatePart::moment1 ? static_cast<int>(static_cast<std::int8_t>(code))
                                                                 : std::to_integer<int>(code));
  if (moment == StatePart::moment1) return q * std::abs(q) / 16129.0f * to_float(scale);
  const float square = q * q / 65025.0f;
  return square * square * to_float(scale);
}

}  // namespace

std::string moment_dtype(MomentFormat format) {
  return format == MomentFormat::f32 ? "F32" : format == MomentFormat::bf16 ? "BF16" : "U8";
}

std::optional<MomentFormat> moment_format(const std::string& dtype, StatePart moment) {
  for (const MomentFormat format : {MomentFormat::f32, MomentFormat::bf16, MomentFormat::int8}) {
    if (dtype == moment_dtype(format)) return format;
  }
  if (dtype == "I8" && moment == StatePart::moment1) return MomentFormat::int8;
  return std::nullopt;
}

std::string scales_name(const std::string& moment) { return moment + ".scales"; }

Shape scales_shape(const Shape& parameter) { return {scales_of(parameter.elements())}; }

void SavedMoment::read(const RawMoment& destination) const {
  codes.file->read_raw(*codes.entry, destination.first, destination.codes);
  if (scales.entry != nullptr) {
    scales.file->read_raw(*scales.entry, scales_of(destination.first), std::as_writable_bytes(destination.scales));
  }
}

void SavedMoment::read(std::int64_t first, std::span<float> values) const {
  if (format() == MomentFormat::f32) return codes.file->read(*codes.entry, first, values);
  std::vector<std::byte> code_buffer(values.size() * optimizers::code_bytes(format()));
  std::vector<std::uint16_t> scale_buffer;
  codes.file->read_raw(*codes.entry, first, code_buffer);
  if (scales.entry != nullptr) {
    scale_buffer.resize(static_cast<std::size_t>(scales_of(static_cast<std::int64_t>(values.size()))));
    scales.file->read_raw(*scales.entry, scales_of(first), std::as_writable_bytes(std::span(scale_buffer)));
  }
  if (earlier) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      constexpr std::size_t kLanes = optimizers::kScalesPerBlock;
      const bf16 scale{scale_buffer[i / optimizers::kScaleBlock * kLanes + i % kLanes]};
      values[i] = earlier_value(moment, code_buffer[i], scale);
    }
    return;
  }
  const std::size_t which = moment == StatePart::moment1 ? 0 : 1;
  const auto decode = optimizers::kernels().decode[which][static_cast<std::size_t>(format())];
  decode(MomentStream{code_buffer.data(), scale_buffer.data()}, values.size(), values.data());
}

}  // namespace l2l::eps

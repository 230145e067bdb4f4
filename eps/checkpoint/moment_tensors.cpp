#include "eps/checkpoint/moment_tensors.h"

#include <vector>

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

}  // namespace

std::string moment_dtype(MomentFormat format, StatePart moment) {
  if (format == MomentFormat::f32) return "F32";
  if (format == MomentFormat::bf16) return "BF16";
  return moment == StatePart::moment1 ? "I8" : "U8";
}

std::optional<MomentFormat> moment_format(const std::string& dtype, StatePart moment) {
  for (const MomentFormat format : {MomentFormat::f32, MomentFormat::bf16, MomentFormat::int8}) {
    if (dtype == moment_dtype(format, moment)) return format;
  }
  return std::nullopt;
}

std::string scales_name(const std::string& moment) { return moment + ".scales"; }

Shape scales_shape(const Shape& parameter) { return {scales_of(parameter.elements())}; }

void SavedMoment::read(const RawMoment& destination) const {
  file.read_raw(codes, 0, destination.codes);
  if (scales != nullptr) file.read_raw(*scales, 0, std::as_writable_bytes(destination.scales));
}

void SavedMoment::read(std::int64_t first, std::span<float> values) const {
  if (format() == MomentFormat::f32) return file.read(codes, first, values);
  std::vector<std::byte> code_buffer(values.size() * optimizers::code_bytes(format()));
  std::vector<std::uint16_t> scale_buffer;
  file.read_raw(codes, first, code_buffer);
  if (scales != nullptr) {
    scale_buffer.resize(static_cast<std::size_t>(scales_of(static_cast<std::int64_t>(values.size()))));
    file.read_raw(*scales, scales_of(first), std::as_writable_bytes(std::span(scale_buffer)));
  }
  const std::size_t which = moment == StatePart::moment1 ? 0 : 1;
  const auto decode = optimizers::kernels().decode[which][static_cast<std::size_t>(format())];
  decode(MomentStream{code_buffer.data(), scale_buffer.data()}, values.size(), values.data());
}

}  // namespace l2l::eps

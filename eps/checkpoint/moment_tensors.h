// The moments in a checkpoint, in the format of the run that saved them:
//
//   fp32   NAME.moment1  F32, the parameter's shape
//   bf16   NAME.moment1  BF16, the parameter's shape
//   int8   NAME.moment1  U8, the parameter's shape: codes
//          NAME.moment1.scales  BF16, [sixteen for each 512 elements begun]
//
// optimizers/formats defines the codes. A run with another format converts them. Earlier files have other codes of 8
// bits, which are known by the first moment's type, I8; they are converted as well.
#pragma once

#include <optional>
#include <string>

#include "eps/checkpoint/checkpoint_parts.h"
#include "eps/group_memory.h"
#include "formats/safetensors_shards.h"

namespace l2l::eps {

std::string moment_dtype(optimizers::MomentFormat format);
// Empty when no format of this moment has that type.
std::optional<optimizers::MomentFormat> moment_format(const std::string& dtype, StatePart moment);

std::string scales_name(const std::string& moment);
Shape scales_shape(const Shape& parameter);

// A moment of a parameter in files whose tensors were checked.
struct SavedMoment {
  formats::ShardedTensor codes;
  formats::ShardedTensor scales;  // of int8
  StatePart moment;
  bool earlier = false;  // the earlier codes of 8 bits

  optimizers::MomentFormat format() const { return moment_format(codes.entry->dtype, moment).value(); }
  // What `destination` holds of the parameter, without conversion; it has the same format, which is not an earlier one.
  void read(const RawMoment& destination) const;
  // Elements [first, first + size of `values`), at most kPiece, as fp32. `first` is a multiple of 512.
  void read(std::int64_t first, std::span<float> values) const;
};

}  // namespace l2l::eps

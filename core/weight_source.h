// Where the initial values of parameters come from when not from random numbers.
#pragma once

#include <cstdint>
#include <span>

#include "core/model_layout.h"

namespace l2l {

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  // Reads elements [first, first + size of `destination`) of a parameter, in fp32. Returns false where the source has
  // none, for all elements of a parameter or for none of them: it is random then. Thread-safe. Throws CorruptFile.
  virtual bool read(const ParameterSpec& parameter, std::int64_t first, std::span<float> destination) const = 0;
};

}  // namespace l2l

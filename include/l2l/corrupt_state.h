// The error of a run whose state in host memory has changed by itself.
#pragma once

#include "l2l/errors.h"

namespace l2l {

// Weights or moments in host memory are not what the last update left there: a bit has flipped, or another part of the
// program wrote there. The message names step, group and place. Nothing of that state was saved.
class L2L_API CorruptState : public Error {
 public:
  using Error::Error;
};

}  // namespace l2l

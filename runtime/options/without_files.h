// Options of a run that neither reads nor writes files: to plan it or to measure its steps.
#pragma once

#include "l2l/options.h"

namespace l2l::runtime {

inline Options without_files(Options options) {
  options.data.train.clear();
  options.data.validation.clear();
  options.run.validate_every = 0;
  options.checkpoint = {};
  return options;
}

}  // namespace l2l::runtime

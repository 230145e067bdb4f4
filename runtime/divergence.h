// What to say of a run whose numbers are no longer finite.
#pragma once

#include <string>

#include "l2l/errors.h"
#include "l2l/options.h"

namespace l2l::runtime {

// The same error with advice: the settings that usually help, each with its value in force, and the checkpoint from
// which the run would go on.
NumericError with_advice(const NumericError& error, const Options& options);

}  // namespace l2l::runtime

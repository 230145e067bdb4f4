// The predicted time of a step, for people.
#pragma once

#include <ostream>

#include "l2l/trainer.h"

namespace l2l::tools {

void print_prediction(std::ostream& out, const StepPrediction& prediction);

}  // namespace l2l::tools

// Small runs whose steps are predicted.
#pragma once

#include "runtime/plan_run.h"
#include "runtime/tuning/prediction.h"

namespace l2l::runtime {

inline Options small_options() {
  Options options;
  options.precision.compute = "fp32";
  options.model = {.layers = 4, .hidden = 64, .heads = 4, .sequence = 16, .dropout = 0};
  options.batch = {.micro_batch = 2, .micro_batches = 3};
  options.device.kind = "host";
  options.eps.threads = 1;
  options.recompute.policy = "full";
  return options;
}

inline StepPrediction predict_thoroughly(const RunPlan& plan, Calibration& calibration) {
  MeasuringSession session({.seconds = Measuring::kThorough});
  return predict_step(plan, calibration, &session);
}

}  // namespace l2l::runtime

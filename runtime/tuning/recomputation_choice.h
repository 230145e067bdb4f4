// recompute.policy = "auto" and recompute.budget: what blocks keep, where, and what they recompute, chosen by what ops
// and copies take on this machine and by the memory there is.
#pragma once

#include <optional>
#include <vector>

#include "runtime/tuning/block_chain.h"
#include "runtime/tuning/calibration.h"
#include "runtime/tuning/shallow_run.h"

namespace l2l::runtime {

// Measures, on the plan's idle devices, what the calibration has not, and keeps it there. Thread-bound.
class RecomputationChoice {
 public:
  // For a run of `options`, as of resolved_options(). `least`: the same run with the least memory that they allow: its
  // blocks keep their inputs alone. Both outlive it.
  RecomputationChoice(const Options& options, const RunPlan& least);
  ~RecomputationChoice();

  // Each block gets one of several programs (keep all, nothing, the smallest cut, and what knapsacks over the values
  // take) and a place for its stash, and its weights stay on the device or not, so that the step is the shortest within
  // device memory, the limit of the stash, and the time that the link has left beside weights and gradients. Where
  // nothing fits, what the least run does.
  Arrangement automatic();
  // Seconds of the step that automatic() takes for the shortest, without what no microbatch changes; nothing: none
  // fits.
  std::optional<double> predicted();
  // What the policy keeps, and programs whose backward visits have at most recompute.budget of scratch
  // (compiler/remat/stage.h). Throws OutOfMemory when none has.
  Arrangement within_budget(compiler::remat::Policy policy);

 private:
  using Candidate = BlockChain::Candidate;

  std::vector<Candidate> candidates();
  Options measured_options() const;
  std::vector<StepRatio> measured_steps(const std::vector<Candidate>& candidates);
  Arrangement least() const;
  Bytes device_limit() const;
  Bytes free_host() const;
  BlockChain::Limits limits() const;

  const Options& options_;
  const RunPlan& least_;
  Calibration calibration_;
  StepCosts costs_;
  BlockChain chain_;
};

}  // namespace l2l::runtime

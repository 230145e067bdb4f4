#include "runtime/options/unused_keys.h"

#include <string_view>

#include "models/architecture.h"
#include "runtime/options/architecture_defaults.h"

namespace l2l::runtime {
namespace {

struct Dependence {
  bool unused;
  std::string_view key, other;  // because of the value of `other`
};

std::vector<Dependence> dependences(const ResolvedOptions& options) {
  const OptimizerOptions& optimizer = options.optimizer;
  const bool sgd = optimizer.name == "sgd", unmasked = !models::architecture_of(options.model.architecture).encoder;
  const bool scales = options.precision.compute == "fp16";
  const std::string& rope = options.model.rope_scaling;
  return {
      {rope == "none", "model.rope_factor", "model.rope_scaling"},
      {rope != "llama3", "model.rope_low_frequency", "model.rope_scaling"},
      {rope != "llama3", "model.rope_high_frequency", "model.rope_scaling"},
      {rope != "yarn", "model.rope_beta_fast", "model.rope_scaling"},
      {rope != "yarn", "model.rope_beta_slow", "model.rope_scaling"},
      {rope != "yarn", "model.rope_truncate", "model.rope_scaling"},
      {rope != "yarn", "model.rope_attention_factor", "model.rope_scaling"},
      {rope != "llama3" && rope != "yarn", "model.rope_original_positions", "model.rope_scaling"},
      {optimizer.clip == "none", "optimizer.max_norm", "optimizer.clip"},
      {!sgd, "optimizer.momentum", "optimizer.name"},
      {sgd, "optimizer.betas", "optimizer.name"},
      {sgd, "optimizer.epsilon", "optimizer.name"},
      {options.schedule.kind == "constant", "schedule.minimum", "schedule.kind"},
      {!scales, "precision.loss_scale_growth", "precision.compute"},
      {scales && options.precision.loss_scale != 0, "precision.loss_scale_growth", "precision.loss_scale"},
      {unmasked, "data.masked", "model.architecture"},
      {!unmasked && options.model.head != "language", "data.masked", "model.head"},
      {unmasked, "data.mask_token", "model.architecture"},
      {options.data.samples != "padded", "data.buckets", "data.samples"},
      {options.device.kind == "host", "precision.tf32", "device.kind"},
      {options.device.kind == "host", "device.graphs", "device.kind"},
      {options.recompute.policy == "selective" && fuses_attention(options.model), "recompute.policy",
       "model.attention"},
  };
}

}  // namespace

std::vector<std::string> unused_keys(const ResolvedOptions& options) {
  std::vector<std::string> lines;
  if (!options.data.has_training()) return lines;
  const auto named = [&](std::string_view key) { return std::string(key) + " = " + value_of(options, key); };
  for (const auto& [unused, key, other] : dependences(options)) {
    if (!unused || value_of(options, key) == value_of(Options(), key)) continue;
    lines.push_back(named(key) + " has no effect with " + named(other));
  }
  if (options.schedule.warmup_steps > options.run.steps) {
    lines.push_back(named("optimizer.learning_rate") + " is not reached: the run ends within the warm-up, with " +
                    named("run.steps") + " and " + named("schedule.warmup_steps"));
  }
  return lines;
}

}  // namespace l2l::runtime

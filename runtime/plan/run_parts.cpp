#include "runtime/plan/run_parts.h"

#include "models/bert.h"
#include "models/gpt2.h"
#include "models/llama.h"

namespace l2l::runtime {
namespace {

DType dtype_of(const std::string& name) {
  if (name == "bf16") return DType::bf16;
  return name == "fp16" ? DType::f16 : DType::f32;
}

DType compute_dtype(const Options& options) { return dtype_of(options.precision.compute); }

DType gradient_dtype(const Options& options) {
  return options.precision.gradients == "auto" ? compute_dtype(options) : dtype_of(options.precision.gradients);
}

// Settings of AdamW or LAMB, whose fields have the same names.
template <typename Settings>
Settings adam_settings(const OptimizerOptions& options) {
  Settings settings;
  settings.beta1 = static_cast<float>(options.beta1);
  settings.beta2 = static_cast<float>(options.beta2);
  settings.epsilon = static_cast<float>(options.epsilon);
  settings.weight_decay = static_cast<float>(options.weight_decay);
  return settings;
}

optimizers::Optimizer optimizer_of(const OptimizerOptions& options) {
  if (options.name == "lamb") return adam_settings<optimizers::LambSettings>(options);
  if (options.name == "adamw") return adam_settings<optimizers::AdamWSettings>(options);
  optimizers::SgdSettings sgd;
  sgd.momentum = static_cast<float>(options.momentum);
  sgd.weight_decay = static_cast<float>(options.weight_decay);
  return sgd;
}

eps::ClipMode clip_mode(const std::string& name) {
  if (name == "global") return eps::ClipMode::global;
  return name == "per_layer" ? eps::ClipMode::per_layer : eps::ClipMode::none;
}

std::int64_t intermediate_of(const ModelOptions& model) {
  if (model.intermediate > 0) return model.intermediate;
  if (model.architecture != "llama") return 4 * model.hidden;
  return (8 * model.hidden / 3 + 255) / 256 * 256;  // as the published models
}

models::Reversible reversible_of(const std::string& name) {
  if (name == "float") return models::Reversible::floating;
  return name == "fixed" ? models::Reversible::fixed : models::Reversible::no;
}

}  // namespace

optimizers::LossScaler loss_scaler(const PrecisionOptions& precision) {
  if (precision.compute != "fp16") return {};
  if (precision.loss_scale > 0) return optimizers::LossScaler::fixed(precision.loss_scale);
  return optimizers::LossScaler::dynamic(static_cast<std::uint64_t>(precision.loss_scale_growth));
}

models::Model make_model(const Options& options) {
  const ModelOptions& model = options.model;
  const models::TransformerShape shape{.layers = model.layers,
                                       .hidden = model.hidden,
                                       .heads = model.heads,
                                       .intermediate = intermediate_of(model),
                                       .vocabulary = model.vocabulary,
                                       .sequence = model.sequence,
                                       .micro_batch = options.batch.micro_batch,
                                       .dropout = static_cast<float>(model.dropout),
                                       .compute = compute_dtype(options),
                                       .vocabulary_chunk = options.transfer.vocabulary_chunk,
                                       .kv_heads = model.kv_heads,
                                       .rope_theta = static_cast<float>(model.rope_theta),
                                       .norm_epsilon = static_cast<float>(model.norm_epsilon),
                                       .tie_embeddings = model.tie_embeddings,
                                       .core_attention = model.attention == "core",
                                       .reversible = reversible_of(model.reversible),
                                       .keeps_inputs = options.transfer.stash != "auto"};
  if (model.architecture == "bert") return models::make_bert(shape);
  return model.architecture == "llama" ? models::make_llama(shape) : models::make_gpt2(shape);
}

eps::StoreOptions store_options(const Options& options, const Placement& placement) {
  eps::StoreOptions store;
  store.wire = compute_dtype(options);
  store.gradients = gradient_dtype(options);
  store.update = options.optimizer.update == "eager" ? eps::UpdateMode::eager : eps::UpdateMode::after_backward;
  store.clip = clip_mode(options.optimizer.clip);
  store.max_norm = options.optimizer.max_norm;
  store.optimizer = optimizer_of(options.optimizer);
  store.moments = optimizers::parse_moment_formats(options.optimizer.moments);
  store.loss_scaling = options.precision.compute == "fp16";
  store.placement = placement;
  store.devices = static_cast<int>(options.device.count);
  store.staging_slots = 1 + 2 * store.devices;
  store.seed = options.run.seed;
  return store;
}

ExecutionPlan execution_plan(const Options& options) {
  ExecutionPlan plan;
  plan.execution = options.device.execution == "resident" ? Execution::resident : Execution::relay;
  plan.devices = static_cast<int>(options.device.count);
  plan.microbatches = static_cast<int>(options.batch.micro_batches / options.device.count);
  plan.prefetch = static_cast<int>(options.transfer.prefetch);
  plan.gradients = gradient_dtype(options);
  return plan;
}

}  // namespace l2l::runtime

#include "runtime/options/options_table.h"

#include <charconv>

#include "eps/parameter_store.h"
#include "models/architecture.h"
#include "runtime/data/buckets.h"
#include "runtime/options/batch_shape.h"

namespace l2l::runtime {

namespace {

constexpr std::int64_t kMostSteps = 1'000'000'000'000;
constexpr std::int64_t kMostThreads = 4096;

// Numbers that fp32 holds with its full precision, zero apart.
const std::vector<std::string_view> kDataFormats = {"auto",   "text",     "jsonl", "csv",      "tsv",
                                                    "tokens", "tokens32", "llm.c", "megatron", "npy"};
const std::vector<std::string_view> kLearn = {"all", "completion", "assistant"};
const std::vector<std::string_view> kChatTemplates = {"auto", "chatml", "llama3", "mistral", "gemma", "zephyr"};

constexpr Interval kPositive{1e-30, 1e30};
constexpr Interval kNotNegative{0, 1e30};
constexpr Interval kBelowOne{0, 1, false, true};
constexpr Interval kShare{0, 1, true, false};
constexpr Interval kRotaryBase{1, 1e12, true};
constexpr Interval kLossScale{1, 16777216};

std::string short_text(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

void add_rope(std::vector<Key>& keys, ModelOptions& model) {
  keys.push_back({"model", "rope_theta", RealField{&model.rope_theta, kRotaryBase}});
  keys.push_back({"model", "rope_local_theta", RealField{&model.rope_local_theta, kRotaryBase}});
  keys.push_back(
      {"model", "rope_scaling", TextField{&model.rope_scaling, {"none", "linear", "dynamic", "llama3", "yarn"}}});
  keys.push_back({"model", "rope_factor", RealField{&model.rope_factor, kPositive}});
  keys.push_back({"model", "rope_original_positions", IntegerField{&model.rope_original_positions, 0, 1 << 24}});
  keys.push_back({"model", "rope_low_frequency", RealField{&model.rope_low_frequency, kPositive}});
  keys.push_back({"model", "rope_high_frequency", RealField{&model.rope_high_frequency, kPositive}});
  keys.push_back({"model", "rope_beta_fast", RealField{&model.rope_beta_fast, kPositive}});
  keys.push_back({"model", "rope_beta_slow", RealField{&model.rope_beta_slow, kPositive}});
  keys.push_back({"model", "rope_attention_factor", RealField{&model.rope_attention_factor, kNotNegative}});
  keys.push_back({"model", "rope_truncate", BooleanField{&model.rope_truncate}});
}

void add_model(std::vector<Key>& keys, ModelOptions& model) {
  std::vector<std::string_view> names;
  for (const models::Architecture& each : models::architectures()) names.push_back(each.name);
  keys.push_back({"model", "pretrained", PathField{&model.pretrained}});
  keys.push_back({"model", "new_head", BooleanField{&model.new_head}});
  keys.push_back({"model", "architecture", TextField{&model.architecture, names}});
  keys.push_back({"model", "layers", IntegerField{&model.layers, 1, 1'000'000}});
  keys.push_back({"model", "hidden", IntegerField{&model.hidden, 1, 1 << 20}});
  keys.push_back({"model", "heads", IntegerField{&model.heads, 1, 1 << 16}});
  keys.push_back({"model", "kv_heads", IntegerField{&model.kv_heads, 0, 1 << 16}});
  keys.push_back({"model", "head_dim", IntegerField{&model.head_dim, 0, 1 << 16}});
  keys.push_back({"model", "intermediate", IntegerField{&model.intermediate, 0, 1 << 22}});
  keys.push_back({"model", "vocabulary", IntegerField{&model.vocabulary, 1, 1 << 24}});
  keys.push_back({"model", "sequence", IntegerField{&model.sequence, 1, 1 << 20}});
  keys.push_back({"model", "positions", IntegerField{&model.positions, 0, 1 << 24}});
  keys.push_back({"model", "token_types", IntegerField{&model.token_types, 1, 1 << 24}});
  keys.push_back({"model", "padding_token", IntegerField{&model.padding_token, -1, 1 << 24}});
  keys.push_back({"model", "dropout", RealField{&model.dropout, kBelowOne}});
  keys.push_back({"model", "norm_epsilon", RealField{&model.norm_epsilon, kBelowOne}});
  keys.push_back({"model", "activation", TextField{&model.activation, {"auto", "gelu", "gelu_tanh", "silu"}}});
  keys.push_back({"model", "attention_bias", BooleanField{&model.attention_bias}});
  keys.push_back({"model", "mlp_bias", BooleanField{&model.mlp_bias}});
  keys.push_back({"model", "tie_embeddings", BooleanField{&model.tie_embeddings}});
  keys.push_back({"model", "layer_types", TextsField{&model.layer_types}});
  keys.push_back({"model", "sliding_window", IntegerField{&model.sliding_window, 0, 1 << 24}});
  keys.push_back({"model", "attention_softcap", RealField{&model.attention_softcap, kNotNegative}});
  keys.push_back({"model", "logit_softcap", RealField{&model.logit_softcap, kNotNegative}});
  keys.push_back({"model", "query_scale", RealField{&model.query_scale, kNotNegative}});
  add_rope(keys, model);
  keys.push_back({"model", "attention", TextField{&model.attention, {"fused", "core"}}});
  keys.push_back({"model", "reversible", TextField{&model.reversible, {"none", "float", "fixed"}}});
}

void add_data_and_batch(std::vector<Key>& keys, DataOptions& data, BatchOptions& batch) {
  keys.push_back({"data", "train", TextsField{&data.train}});
  keys.push_back({"data", "source", SourcesField{&data.source}});
  keys.push_back({"data", "validation", TextsField{&data.validation}});
  keys.push_back({"data", "format", TextField{&data.format, kDataFormats}});
  keys.push_back({"data", "separator", TextField{&data.separator, {}, /*any_characters=*/true}});
  keys.push_back({"data", "columns", TextsField{&data.columns}});
  keys.push_back({"data", "learn", TextField{&data.learn, kLearn}});
  keys.push_back({"data", "template", TextField{&data.chat_template, kChatTemplates}});
  keys.push_back({"data", "samples", TextField{&data.samples, {"auto", "stream", "packed", "padded"}}});
  keys.push_back({"data", "buckets", IntegerField{&data.buckets, 1, kMostBuckets}});
  keys.push_back({"data", "order", TextField{&data.order, {"random", "sequential"}}});
  keys.push_back({"data", "tokenizer", TextField{&data.tokenizer, {}}});
  keys.push_back({"data", "masked", RealField{&data.masked, kShare}});
  keys.push_back({"data", "mask_token", IntegerField{&data.mask_token, -1, (1 << 24) - 1}});
  keys.push_back({"data", "allow_change", BooleanField{&data.allow_change}});
  keys.push_back({"batch", "minibatch", IntegerField{&batch.minibatch, 0, kMostMicroBatch * kMostMicroBatches}});
  keys.push_back({"batch", "micro_batch", IntegerField{&batch.micro_batch, 0, kMostMicroBatch}});
  keys.push_back({"batch", "micro_batches", IntegerField{&batch.micro_batches, 0, kMostMicroBatches}});
}

void add_optimizer(std::vector<Key>& keys, OptimizerOptions& optimizer) {
  keys.push_back({"optimizer", "name", TextField{&optimizer.name, {"adamw", "lamb", "sgd"}}});
  keys.push_back({"optimizer", "learning_rate", RealField{&optimizer.learning_rate, kPositive}});
  keys.push_back({"optimizer", "betas", PairField{&optimizer.beta1, &optimizer.beta2, kBelowOne}});
  keys.push_back({"optimizer", "epsilon", RealField{&optimizer.epsilon, kPositive}});
  keys.push_back({"optimizer", "momentum", RealField{&optimizer.momentum, kBelowOne}});
  keys.push_back({"optimizer", "weight_decay", RealField{&optimizer.weight_decay, kNotNegative}});
  keys.push_back({"optimizer", "clip", TextField{&optimizer.clip, {"none", "per_layer", "global"}}});
  keys.push_back({"optimizer", "max_norm", RealField{&optimizer.max_norm, kPositive}});
  keys.push_back({"optimizer", "moments", TextField{&optimizer.moments, {"fp32", "bf16_first", "bf16", "int8"}}});
  keys.push_back({"optimizer", "update", TextField{&optimizer.update, {"eager", "after_backward"}}});
}

void add_schedule_and_precision(std::vector<Key>& keys, ScheduleOptions& schedule, PrecisionOptions& precision) {
  keys.push_back({"schedule", "kind", TextField{&schedule.kind, {"constant", "cosine", "linear"}}});
  keys.push_back({"schedule", "warmup_steps", IntegerField{&schedule.warmup_steps, 0, kMostSteps}});
  keys.push_back({"schedule", "minimum", RealField{&schedule.minimum, kNotNegative}});
  keys.push_back({"precision", "compute", TextField{&precision.compute, {"fp32", "bf16", "fp16"}}});
  keys.push_back({"precision", "gradients", TextField{&precision.gradients, {"auto", "fp32", "bf16", "fp16"}}});
  keys.push_back({"precision", "loss_scale", RealField{&precision.loss_scale, kLossScale, true}});
  keys.push_back({"precision", "loss_scale_growth", IntegerField{&precision.loss_scale_growth, 1, kMostSteps}});
}

void add_machine(std::vector<Key>& keys, Options& options) {
  DeviceOptions& device = options.device;
  TransferOptions& transfer = options.transfer;
  keys.push_back({"device", "kind", TextField{&device.kind, {"auto", "host", "cuda"}}});
  keys.push_back({"device", "index", IntegerField{&device.index, 0, 1023}});
  keys.push_back({"device", "count", IntegerField{&device.count, 1, eps::kMostDevices}});
  keys.push_back({"device", "memory", UnsignedField{&device.memory, true}});
  keys.push_back({"device", "execution", TextField{&device.execution, {"relay", "resident"}}});
  keys.push_back({"device", "threads", IntegerField{&device.threads, 0, kMostThreads}});
  keys.push_back({"device", "graphs", BooleanField{&device.graphs}});
  keys.push_back({"device", "pinned_memory", UnsignedField{&device.pinned_memory, true}});
  keys.push_back({"transfer", "stash", TextField{&transfer.stash, {"auto", "host", "device"}}});
  keys.push_back({"transfer", "prefetch", IntegerField{&transfer.prefetch, 1, 64}});
  keys.push_back({"transfer", "resident_layers", IntegerField{&transfer.resident_layers, 0, 1'000'000, true}});
  keys.push_back({"transfer", "vocabulary_chunk", IntegerField{&transfer.vocabulary_chunk, 0, 1 << 24}});
  keys.push_back({"transfer", "link_bandwidth", UnsignedField{&transfer.link_bandwidth, true}});
  keys.push_back({"recompute", "policy",
                  TextField{&options.recompute.policy, {"full", "selective", "min_cut", "none", "budget", "auto"}}});
  keys.push_back({"recompute", "budget", UnsignedField{&options.recompute.budget, true}});
  keys.push_back({"eps", "threads", IntegerField{&options.eps.threads, 0, kMostThreads}});
  keys.push_back({"eps", "memory", UnsignedField{&options.eps.memory, true}});
  keys.push_back({"eps", "stash_memory", UnsignedField{&options.eps.stash_memory, true}});
}

void add_run(std::vector<Key>& keys, CheckpointOptions& checkpoint, RunOptions& run) {
  keys.push_back({"checkpoint", "directory", PathField{&checkpoint.directory}});
  keys.push_back({"checkpoint", "every", IntegerField{&checkpoint.every, 0, kMostSteps}});
  keys.push_back({"checkpoint", "keep", IntegerField{&checkpoint.keep, 1, 1'000'000}});
  keys.push_back({"run", "steps", IntegerField{&run.steps, 0, kMostSteps}});
  keys.push_back({"run", "seed", UnsignedField{&run.seed, false}});
  keys.push_back({"run", "seconds", IntegerField{&run.seconds, 0, kMostSteps}});
  keys.push_back({"run", "validate_every", IntegerField{&run.validate_every, 0, kMostSteps}});
}

}  // namespace

bool Interval::contains(double value) const {
  const bool above = excludes_least ? value > least : value >= least;
  const bool below = excludes_most ? value < most : value <= most;
  return above && below;
}

std::string Interval::to_string() const {
  return (excludes_least ? "(" : "[") + short_text(least) + ", " + short_text(most) + (excludes_most ? ")" : "]");
}

std::vector<Key> source_keys(DataSource& source) {
  const auto inherits = [](std::vector<std::string_view> choices) {
    choices.push_back("");
    return choices;
  };
  return {{"data.source", "train", TextsField{&source.train}},
          {"data.source", "weight", RealField{&source.weight, kPositive}},
          {"data.source", "format", TextField{&source.format, inherits(kDataFormats)}},
          {"data.source", "separator", TextField{&source.separator, {}, /*any_characters=*/true}},
          {"data.source", "columns", TextsField{&source.columns}},
          {"data.source", "learn", TextField{&source.learn, inherits(kLearn)}},
          {"data.source", "template", TextField{&source.chat_template, inherits(kChatTemplates)}}};
}

std::vector<Key> option_keys(Options& options) {
  std::vector<Key> keys;
  add_model(keys, options.model);
  add_data_and_batch(keys, options.data, options.batch);
  add_optimizer(keys, options.optimizer);
  add_schedule_and_precision(keys, options.schedule, options.precision);
  add_machine(keys, options);
  add_run(keys, options.checkpoint, options.run);
  return keys;
}

}  // namespace l2l::runtime

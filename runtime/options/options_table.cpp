#include "runtime/options/options_table.h"

#include <charconv>

#include "eps/parameter_store.h"
#include "models/architecture.h"
#include "runtime/data/buckets.h"
#include "runtime/options/batch_shape.h"

namespace l2l::runtime {

namespace {

constexpr std::int64_t kMostSteps = 1'000'000'000'000;
constexpr std::int64_t kMostThreads = 1024;
constexpr std::int64_t kMostNodes = 4096;

const std::vector<std::string_view> kDataFormats = {"auto",   "text",     "jsonl",   "csv",      "tsv",
                                                    "tokens", "tokens32", "llm.c",   "megatron", "npy",
                                                    "png",    "cifar10",  "cifar100"};
const std::vector<std::string_view> kTasks = {"", "cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli"};
const std::vector<std::string_view> kLearn = {"all", "completion", "assistant"};
const std::vector<std::string_view> kChatTemplates = {"auto", "chatml", "llama3", "mistral", "gemma", "zephyr"};

// Numbers that fp32 holds with its full precision, zero apart.
constexpr Interval kPositive{1e-30, 1e30};
constexpr Interval kNotNegative{0, 1e30};
constexpr Interval kFromMinusOne{-1, 1e30};
constexpr Interval kBelowOne{0, 1, false, true};
// Decay rates of moments, which fp32 must tell from 1.
constexpr Interval kDecayRate{0, 0.999999};
constexpr Interval kShare{0, 1, true, false};
constexpr Interval kRotaryBase{1, 1e12, true};
constexpr Interval kLossScale{1, 16777216};

std::string short_text(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
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

std::vector<Key> keys_of(ParameterGroup& group) {
  return {{"optimizer.group", "parameters", TextsField{&group.parameters}},
          {"optimizer.group", "learning_rate", RealField{&group.learning_rate, kFromMinusOne}},
          {"optimizer.group", "weight_decay", RealField{&group.weight_decay, kFromMinusOne}}};
}

std::vector<Key> keys_of(DataSource& source) {
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
  auto& [model, data, batch, optimizer, lora, schedule, precision, device, distributed, transfer, recompute, eps,
         checkpoint, run, given] = options;
  std::vector<std::string_view> names;
  for (const models::Architecture& each : models::architectures()) names.push_back(each.name);
  for (const models::Architecture& each : models::custom_architectures()) names.push_back(each.name);
  return {
      {"model", "pretrained", PathField{&model.pretrained}},
      {"model", "new_head", BooleanField{&model.new_head}},
      {"model", "base", PathField{&model.base}},
      {"model", "head",
       TextField{&model.head, {"language", "classification", "regression", "tokens", "choice", "custom"}}},
      {"model", "labels", IntegerField{&model.labels, 2, 1 << 20}},
      {"model", "label_names", TextsField{&model.label_names}},
      {"model", "architecture", TextField{&model.architecture, names}},
      {"model", "layers", IntegerField{&model.layers, 1, 10'000}},
      {"model", "hidden", IntegerField{&model.hidden, 1, 1 << 20}},
      {"model", "heads", IntegerField{&model.heads, 1, 1 << 16}},
      {"model", "kv_heads", IntegerField{&model.kv_heads, 0, 1 << 16}},
      {"model", "head_dim", IntegerField{&model.head_dim, 0, 1 << 16}},
      {"model", "intermediate", IntegerField{&model.intermediate, 0, 1 << 22}},
      {"model", "vocabulary", IntegerField{&model.vocabulary, 1, 1 << 24}},
      {"model", "sequence", IntegerField{&model.sequence, 1, 1 << 20}},
      {"model", "positions", IntegerField{&model.positions, 0, 1 << 24}},
      {"model", "token_types", IntegerField{&model.token_types, 1, 1 << 24}},
      {"model", "padding_token", IntegerField{&model.padding_token, -1, 1 << 24}},
      {"model", "dropout", RealField{&model.dropout, kBelowOne}},
      {"model", "norm_epsilon", RealField{&model.norm_epsilon, kBelowOne}},
      {"model", "activation", TextField{&model.activation, {"auto", "gelu", "gelu_tanh", "silu"}}},
      {"model", "attention_bias", BooleanField{&model.attention_bias}},
      {"model", "mlp_bias", BooleanField{&model.mlp_bias}},
      {"model", "tie_embeddings", BooleanField{&model.tie_embeddings}},
      {"model", "layer_types", TextsField{&model.layer_types}},
      {"model", "sliding_window", IntegerField{&model.sliding_window, 0, 1 << 24}},
      {"model", "attention_softcap", RealField{&model.attention_softcap, kNotNegative}},
      {"model", "logit_softcap", RealField{&model.logit_softcap, kNotNegative}},
      {"model", "query_scale", RealField{&model.query_scale, kNotNegative}},
      {"model", "rope_theta", RealField{&model.rope_theta, kRotaryBase}},
      {"model", "rope_local_theta", RealField{&model.rope_local_theta, kRotaryBase}},
      {"model", "rope_scaling", TextField{&model.rope_scaling, {"none", "linear", "dynamic", "llama3", "yarn"}}},
      {"model", "rope_factor", RealField{&model.rope_factor, kPositive}},
      {"model", "rope_original_positions", IntegerField{&model.rope_original_positions, 0, 1 << 24}},
      {"model", "rope_low_frequency", RealField{&model.rope_low_frequency, kPositive}},
      {"model", "rope_high_frequency", RealField{&model.rope_high_frequency, kPositive}},
      {"model", "rope_beta_fast", RealField{&model.rope_beta_fast, kPositive}},
      {"model", "rope_beta_slow", RealField{&model.rope_beta_slow, kPositive}},
      {"model", "rope_attention_factor", RealField{&model.rope_attention_factor, kNotNegative}},
      {"model", "rope_truncate", BooleanField{&model.rope_truncate}},
      {"model", "attention", TextField{&model.attention, {"fused", "core"}}},
      {"model", "blocks", TextsField{&model.block_names}},
      {"model", "inputs", TextsField{&model.input_names}},
      {"model", "targets", TextsField{&model.target_names}},
      {"model", "custom_ops", TextsField{&model.custom_op_names}},
      {"model", "reversible", TextField{&model.reversible, {"none", "float", "fixed"}}},
      {"model", "variant", TextField{&model.variant, {"S0", "S1", "S2", "S3", "S4", "S5", "S6"}}},
      {"model", "image_size", IntegerField{&model.image_size, 0, 1 << 16}},
      {"model", "image_channels", IntegerField{&model.image_channels, 1, 3}},
      {"data", "train", TextsField{&data.train}},
      {"data", "source", SourcesField{&data.source}},
      {"data", "validation", TextsField{&data.validation}},
      {"data", "format", TextField{&data.format, kDataFormats}},
      {"data", "separator", TextField{&data.separator, {}, /*any_characters=*/true}},
      {"data", "columns", TextsField{&data.columns}},
      {"data", "label", TextField{&data.label, {}}},
      {"data", "task", TextField{&data.task, kTasks}},
      {"data", "learn", TextField{&data.learn, kLearn}},
      {"data", "template", TextField{&data.chat_template, kChatTemplates}},
      {"data", "samples", TextField{&data.samples, {"auto", "stream", "packed", "padded"}}},
      {"data", "buckets", IntegerField{&data.buckets, 1, kMostBuckets}},
      {"data", "order", TextField{&data.order, {"random", "sequential"}}},
      {"data", "tokenizer", TextField{&data.tokenizer, {}}},
      {"data", "masked", RealField{&data.masked, kShare}},
      {"data", "mask_token", IntegerField{&data.mask_token, -1, (1 << 24) - 1}},
      {"data", "augment", TextField{&data.augment, {"none", "shift", "crop"}}},
      {"data", "allow_change", BooleanField{&data.allow_change}},
      {"data", "threads", IntegerField{&data.threads, 1, 1024}},
      {"batch", "minibatch", IntegerField{&batch.minibatch, 0, kMostMicroBatch * kMostMicroBatches}},
      {"batch", "micro_batch", IntegerField{&batch.micro_batch, 0, kMostMicroBatch, true}},
      {"batch", "micro_batches", IntegerField{&batch.micro_batches, 0, kMostMicroBatches}},
      {"batch", "parts", IntegerField{&batch.parts, 0, kMostParts}},
      {"optimizer", "name", TextField{&optimizer.name, {"adamw", "lamb", "sgd"}}},
      {"optimizer", "learning_rate", RealField{&optimizer.learning_rate, kPositive}},
      {"optimizer", "betas", PairField{&optimizer.beta1, &optimizer.beta2, kDecayRate}},
      {"optimizer", "epsilon", RealField{&optimizer.epsilon, kPositive}},
      {"optimizer", "momentum", RealField{&optimizer.momentum, kDecayRate}},
      {"optimizer", "weight_decay", RealField{&optimizer.weight_decay, kNotNegative}},
      {"optimizer", "clip", TextField{&optimizer.clip, {"none", "per_layer", "global"}}},
      {"optimizer", "max_norm", RealField{&optimizer.max_norm, kPositive}},
      {"optimizer", "moments", TextField{&optimizer.moments, {"fp32", "bf16_first", "bf16", "int8"}}},
      {"optimizer", "update", TextField{&optimizer.update, {"eager", "after_backward"}}},
      {"optimizer", "train", TextsField{&optimizer.train}},
      {"optimizer", "group", GroupsField{&optimizer.group}},
      {"optimizer", "layer_decay", RealField{&optimizer.layer_decay, kShare}},
      {"lora", "rank", IntegerField{&lora.rank, 0, 1 << 16}},
      {"lora", "alpha", RealField{&lora.alpha, kPositive}},
      {"lora", "dropout", RealField{&lora.dropout, kBelowOne}},
      {"lora", "targets", TextsField{&lora.targets}},
      {"lora", "rank_stabilized", BooleanField{&lora.rank_stabilized}},
      {"lora", "adapter", PathField{&lora.adapter}},
      {"schedule", "kind", TextField{&schedule.kind, {"constant", "cosine", "linear"}}},
      {"schedule", "warmup_steps", IntegerField{&schedule.warmup_steps, 0, kMostSteps}},
      {"schedule", "minimum", RealField{&schedule.minimum, kNotNegative}},
      {"precision", "compute", TextField{&precision.compute, {"auto", "fp32", "bf16", "fp16"}}},
      {"precision", "gradients", TextField{&precision.gradients, {"auto", "fp32", "bf16", "fp16"}}},
      {"precision", "loss_scale", RealField{&precision.loss_scale, kLossScale, true}},
      {"precision", "loss_scale_growth", IntegerField{&precision.loss_scale_growth, 1, kMostSteps}},
      {"precision", "tf32", BooleanField{&precision.tf32}},
      {"device", "kind", TextField{&device.kind, {"auto", "host", "cuda"}}},
      {"device", "index", IntegerField{&device.index, 0, 1023}},
      {"device", "count", IntegerField{&device.count, 1, eps::kMostDevices}},
      {"device", "tensor", IntegerField{&device.tensor, 1, eps::kMostDevices}},
      {"device", "feed", TextField{&device.feed, {"auto", "whole", "gathered"}}},
      {"device", "sums", TextField{&device.sums, {"auto", "host", "devices"}}},
      {"device", "memory", UnsignedField{&device.memory, true}},
      {"device", "execution", TextField{&device.execution, {"relay", "resident"}}},
      {"device", "threads", IntegerField{&device.threads, 0, kMostThreads}},
      {"device", "graphs", BooleanField{&device.graphs}},
      {"device", "pinned_memory", UnsignedField{&device.pinned_memory, true}},
      {"distributed", "kind", TextField{&distributed.kind, {"auto", "single", "mpi"}}},
      {"distributed", "wire", TextField{&distributed.wire, {"replicated", "sharded"}}},
      {"distributed", "timeout", IntegerField{&distributed.timeout, 0, 1'000'000}},
      {"distributed", "nodes", IntegerField{&distributed.nodes, 0, kMostNodes}},
      {"distributed", "bandwidth", RealField{&distributed.bandwidth, kNotNegative}},
      {"transfer", "stash", TextField{&transfer.stash, {"auto", "host", "device"}}},
      {"transfer", "prefetch", IntegerField{&transfer.prefetch, 1, 64}},
      {"transfer", "resident_layers", IntegerField{&transfer.resident_layers, 0, 10'000, true}},
      {"transfer", "vocabulary_chunk", IntegerField{&transfer.vocabulary_chunk, 0, 1 << 24}},
      {"transfer", "link_bandwidth", UnsignedField{&transfer.link_bandwidth, true}},
      {"recompute", "policy", TextField{&recompute.policy, {"auto", "full", "selective", "min_cut", "none", "budget"}}},
      {"recompute", "budget", UnsignedField{&recompute.budget, true}},
      {"eps", "threads", IntegerField{&eps.threads, 0, kMostThreads}},
      {"eps", "memory", UnsignedField{&eps.memory, true}},
      {"eps", "gradient_buffers", IntegerField{&eps.gradient_buffers, 0, 4096}},
      {"eps", "stash_memory", UnsignedField{&eps.stash_memory, true}},
      {"eps", "verify", BooleanField{&eps.verify}},
      {"checkpoint", "directory", PathField{&checkpoint.directory}},
      {"checkpoint", "every", IntegerField{&checkpoint.every, 0, kMostSteps}},
      {"checkpoint", "minutes", RealField{&checkpoint.minutes, kNotNegative}},
      {"checkpoint", "keep", IntegerField{&checkpoint.keep, 1, 1'000'000}},
      {"checkpoint", "best", TextField{&checkpoint.best, {}}},
      {"run", "steps", IntegerField{&run.steps, 0, kMostSteps}},
      {"run", "seed", UnsignedField{&run.seed, false}},
      {"run", "seconds", IntegerField{&run.seconds, 0, kMostSteps}},
      {"run", "validate_every", IntegerField{&run.validate_every, 0, kMostSteps}},
      {"run", "validate_minutes", RealField{&run.validate_minutes, kNotNegative}},
      {"run", "patience", IntegerField{&run.patience, 0, kMostSteps}},
      {"run", "allow_nonfinite", BooleanField{&run.allow_nonfinite}},
      {"run", "tensorboard", PathField{&run.tensorboard}}};
}

}  // namespace l2l::runtime

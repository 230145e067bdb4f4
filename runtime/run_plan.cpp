#include "runtime/run_plan.h"

#include <algorithm>

#include "eps/checkpoint.h"
#include "models/bert.h"
#include "models/gpt2.h"
#include "models/llama.h"
#include "runtime/host_memory.h"

namespace l2l::runtime {
namespace {

// What a parameter costs beside its elements: names, events, entries of a manifest being written, and the rounding of
// its group's arrays to pages. Measured (docs/benchmarks.md, Host memory).
constexpr Bytes kBytesPerTensor = 2600;

DType dtype_of(const std::string& name) {
  if (name == "bf16") return DType::bf16;
  return name == "fp16" ? DType::f16 : DType::f32;
}

DType compute_dtype(const Options& options) { return dtype_of(options.precision.compute); }

DType gradient_dtype(const Options& options) {
  return options.precision.gradients == "auto" ? compute_dtype(options) : dtype_of(options.precision.gradients);
}

optimizers::LossScaler loss_scaler(const PrecisionOptions& precision) {
  if (precision.compute != "fp16") return {};
  if (precision.loss_scale > 0) return optimizers::LossScaler::fixed(precision.loss_scale);
  return optimizers::LossScaler::dynamic(static_cast<std::uint64_t>(precision.loss_scale_growth));
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
                                       .tie_embeddings = model.tie_embeddings};
  if (model.architecture == "bert") return models::make_bert(shape);
  return model.architecture == "llama" ? models::make_llama(shape) : models::make_gpt2(shape);
}

eps::StoreOptions store_options(const Options& options) {
  eps::StoreOptions store;
  store.wire = compute_dtype(options);
  store.gradients = gradient_dtype(options);
  store.update = options.optimizer.update == "eager" ? eps::UpdateMode::eager : eps::UpdateMode::after_backward;
  store.clip = clip_mode(options.optimizer.clip);
  store.max_norm = options.optimizer.max_norm;
  store.optimizer = optimizer_of(options.optimizer);
  store.moments = optimizers::parse_moment_formats(options.optimizer.moments);
  store.loss_scaling = options.precision.compute == "fp16";
  store.threads = options.eps.threads > 0 ? static_cast<int>(options.eps.threads) : available_cores();
  store.seed = options.run.seed;
  return store;
}

ExecutionPlan execution_plan(const Options& options) {
  ExecutionPlan plan;
  plan.execution = options.device.execution == "resident" ? Execution::resident : Execution::relay;
  plan.microbatches = static_cast<int>(options.batch.micro_batches);
  plan.prefetch = static_cast<int>(options.transfer.prefetch);
  plan.gradients = gradient_dtype(options);
  return plan;
}

Bytes tensors(const ModelLayout& layout) {
  Bytes count = 0;
  for (const GroupSpec& group : layout.groups) count += group.parameters.size();
  return count;
}

std::optional<DataFiles> find(const std::vector<std::string>& patterns, const Options& options, const char* key) {
  if (patterns.empty()) return std::nullopt;
  return find_data(patterns, parse_token_format(options.data.format), key);
}

void check_limit(const std::string& what, const std::string& limit, Bytes need, Bytes have, const std::string& remedy) {
  if (need <= have) return;
  throw OutOfMemory(what + ": needs " + format_bytes(need) + " (" + std::to_string(need) + " bytes), " + limit +
                    " is " + format_bytes(have) + ", short by " + format_bytes(need - have) + "; " + remedy);
}

}  // namespace

device::DeviceSettings device_settings(const Options& options) {
  return {options.device.kind,
          static_cast<int>(options.device.threads),
          options.transfer.link_bandwidth,
          static_cast<int>(options.device.index),
          options.device.graphs,
          options.device.pinned_memory};
}

RunPlan::RunPlan(const Options& given, std::unique_ptr<device::Device> given_device)
    : options((validate_options(given), given)),
      train(find(options.data.train, options, "data.train")),
      validation(find(options.data.validation, options, "data.validation")),
      device(given_device ? std::move(given_device) : device::open_device(device_settings(options), &device_choice)),
      model(make_model(options)),
      store(store_options(options)),
      scaler(loss_scaler(options.precision)),
      execution(execution_plan(options)),
      programs(std::make_unique<Programs>(*device, model, execution.gradients)),
      device_available(device->available_bytes()) {
  choose_stash();
  write_contract();
  check_limits();
}

DatasetSettings RunPlan::dataset_settings() const {
  DatasetSettings settings{options.model.sequence, options.model.vocabulary, options.run.seed};
  if (model.causal) return settings;
  const std::int64_t mask = options.data.mask_token < 0 ? options.model.vocabulary - 1 : options.data.mask_token;
  settings.masking = {options.data.masked, static_cast<std::int32_t>(mask), options.model.vocabulary};
  return settings;
}

void RunPlan::count_trace(Bytes bytes) {
  contract.host.push_back({"timeline (--trace)", bytes});
  contract.host_bytes += bytes;
  check_limits();
}

std::optional<RunPlan::DeviceLimit> RunPlan::device_limit() const {
  const Bytes set = options.device.memory;
  if (set > 0 && (!device_available || set <= *device_available)) return DeviceLimit{set, "device.memory"};
  if (!device_available) return std::nullopt;
  return DeviceLimit{*device_available,
                     "what is free of " + device->description() + " (less a reserve for the driver)"};
}

// "auto": on the device where that fits in its memory, else on the host.
void RunPlan::choose_stash() {
  execution.stash = options.transfer.stash == "host" ? StashPlace::host : StashPlace::device;
  arena = std::make_unique<ArenaPlan>(model, *programs, execution);
  const std::optional<DeviceLimit> limit = device_limit();
  if (options.transfer.stash != "auto" || !limit || arena->bytes() <= limit->bytes) return;
  execution.stash = StashPlace::host;
  arena = std::make_unique<ArenaPlan>(model, *programs, execution);
}

void RunPlan::write_contract() {
  const eps::StoreBytes bytes = eps::ParameterStore::bytes_needed(model.layout, store);
  const HostStaging staging = host_staging(model, execution);
  contract.device_description = device->description();
  contract.device_choice = device_choice;
  contract.parameters = model.layout.parameters();
  contract.stash = execution.stash == StashPlace::host ? "host" : "device";
  contract.device = arena->lines();
  contract.device_bytes = arena->bytes();
  contract.device_other_bytes = device->other_bytes();
  contract.pinned_bytes = bytes.state + bytes.held + bytes.staging + staging.stash + staging.batch;

  const auto add = [&](const char* what, Bytes line) {
    if (line == 0) return;
    contract.host.push_back({what, line});
    contract.host_bytes += line;
  };
  add("weights and optimizer state", bytes.state);
  add("held gradients", bytes.held);
  add("gradient staging", bytes.staging);
  add("stash (layer inputs)", staging.stash);
  add("batch staging", staging.batch);
  if (device->uses_host_memory()) add("device memory (the host device's arena)", arena->bytes());
  add("training data", train ? train->bytes() : 0);
  add("validation data", validation ? validation->bytes() : 0);
  if (!options.checkpoint.directory.empty()) {
    add("buffers for saving and loading", eps::checkpoint_buffer_bytes());
  }
  add("names and bookkeeping of tensors", kBytesPerTensor * tensors(model.layout));
  add("process (code, libraries, threads)", HostMemory().resident());
}

void RunPlan::check_limits() const {
  if (const std::optional<DeviceLimit> limit = device_limit()) {
    check_limit("device memory", limit->name, contract.device_bytes, limit->bytes,
                "lower batch.micro_batch, batch.micro_batches or transfer.prefetch, or set transfer.stash = \"host\"");
  }
  const eps::StoreBytes bytes = eps::ParameterStore::bytes_needed(model.layout, store);
  if (options.eps.memory > 0) {
    check_limit(
        "parameter server", "eps.memory", bytes.state + bytes.held + bytes.staging, options.eps.memory,
        options.precision.compute == "fp16"
            ? "lower model.layers or model.hidden, or set precision.compute = \"bf16\", which need not hold gradients"
            : "lower model.layers or model.hidden, or set optimizer.update = \"eager\" and optimizer.clip = \"none\"");
  }
  if (options.eps.stash_memory > 0) {
    check_limit("host stash", "eps.stash_memory", host_staging(model, execution).stash, options.eps.stash_memory,
                "lower batch.micro_batches or set transfer.stash = \"device\"");
  }
  const HostMemory memory;
  const HostAvailable available = memory.available();
  check_limit("host memory", available.source, contract.host_bytes, memory.resident() + available.bytes,
              "lower model.layers, model.hidden or batch.micro_batches");
}

}  // namespace l2l::runtime

#include "runtime/plan/run_parts.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/error_place.h"
#include "core/host_memory.h"
#include "core/workers.h"
#include "l2l/errors.h"
#include "models/architecture.h"
#include "models/hub/adapter.h"
#include "models/make_model.h"
#include "models/own_layers.h"
#include "runtime/data/dataset.h"
#include "runtime/plan/load_code.h"

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

optimizers::LossScaler loss_scaler(const PrecisionOptions& precision) {
  if (precision.compute != "fp16") return {};
  if (precision.loss_scale > 0) return optimizers::LossScaler::fixed(precision.loss_scale);
  return optimizers::LossScaler::dynamic(static_cast<std::uint64_t>(precision.loss_scale_growth));
}

// Where rows behind a document are not behind it in time, they must be told from its own.
bool needs_rows(const Options& options) {
  const SampleKind kind = sample_kind(options);
  const bool encoder = models::architecture_of(options.model.architecture).encoder;
  return kind == SampleKind::packed || (kind == SampleKind::padded && encoder);
}

models::Model make_model(const ResolvedOptions& options, std::int64_t sequence, std::int32_t member = 0) {
  return models::make_model(options.model, {.micro_batch = options.batch.micro_batch,
                                            .sequence = sequence,
                                            .compute = compute_dtype(options),
                                            .vocabulary_chunk = options.transfer.vocabulary_chunk,
                                            .keeps_inputs = options.transfer.stash != "auto",
                                            .packed = needs_rows(options),
                                            .train = options.optimizer.train,
                                            .lora = models::lora_of(options.lora),
                                            .shard = {static_cast<std::int32_t>(options.device.tensor), member},
                                            .whole_rows = options.whole_rows});
}

// Learning rates and weight decay of single parameters: those of optimizer.layer_decay, by layers, the last of which
// has the factor 1, and of the first group that names it.
void set_update_rules(const OptimizerOptions& optimizer, models::Model& model) {
  std::vector<GroupSpec>& groups = model.layout.groups;
  const int blocks = model.blocks();
  for (int layer = model.layers() - 1; layer >= 0; --layer) {
    const int depth = std::clamp(layer - model.block(0), 0, blocks + 1);  // 0: the embedding
    const auto factor = static_cast<float>(std::pow(optimizer.layer_decay, blocks + 1 - depth));
    for (const LayerPart& part : model.layout.layers[static_cast<std::size_t>(layer)].parts) {
      for (ParameterSpec& each : groups[static_cast<std::size_t>(part.group)].parameters) each.rate = factor;
    }
  }
  const auto names = [](const ParameterGroup& group, const std::string& parameter) {
    return std::ranges::any_of(group.parameters, [&](const std::string& p) { return models::matches(parameter, p); });
  };
  for (GroupSpec& group : groups) {
    for (ParameterSpec& parameter : group.parameters) {
      for (const ParameterGroup& rule : optimizer.group) {
        if (!names(rule, parameter.name)) continue;
        if (rule.learning_rate >= 0) parameter.rate *= static_cast<float>(rule.learning_rate / optimizer.learning_rate);
        parameter.weight_decay = static_cast<float>(rule.weight_decay);
        break;
      }
    }
  }
}

// Of a program's own ops, each once, in order.
std::vector<std::string> custom_ops_of(const models::Model& model) {
  std::set<std::string> names;
  for (const models::LayerType& type : model.types) {
    for (const compiler::Op& op : type.forward.ops) {
      if (op.kind == compiler::OpKind::custom) {
        names.insert(op.attributes.custom.op->name + " " + op.attributes.custom.op->version);
      }
    }
  }
  return {names.begin(), names.end()};
}

// What layers measure for their statistics crosses the link with the gradients, and must not be rounded to 16 bits.
void set_gradients(PrecisionOptions& precision, const ModelLayout& layout) {
  if (!layout.has_statistics()) return;
  if (precision.gradients == "auto") precision.gradients = "fp32";
  if (precision.gradients == "fp32") return;
  throw BadInput("precision.gradients = \"" + precision.gradients +
                     "\": the model has statistics (batch_norm), which need \"fp32\" or \"auto\"",
                 of_key("precision.gradients"));
}

void make_models(RunParts& parts) {
  parts.model = make_model(parts.options, parts.options.model.sequence);
  parts.options.model.custom_op_names = custom_ops_of(parts.model);
  set_update_rules(parts.options.optimizer, parts.model);
  set_gradients(parts.options.precision, parts.model.layout);
  parts.others.clear();
  for (std::int32_t member = 1; member < parts.options.device.tensor; ++member) {
    parts.others.push_back(make_model(parts.options, parts.options.model.sequence, member));
  }
  parts.shorter.clear();
  for (const std::int64_t length : parts.options.lengths) {
    if (length == parts.options.model.sequence) continue;
    if (parts.options.device.tensor > 1) {
      throw BadInput("device.tensor beside sequences of several lengths (data.buckets) is not built",
                     of_key("device.tensor"));
    }
    parts.shorter.push_back(make_model(parts.options, length));
    models::check_same_parameters(parts.model.layout, parts.shorter.back().layout);
  }
}

// Buffers for gradients where the options leave it open. The host goes on updating during the next forward pass, as far
// as gradients may wait; it matters beside a device that computes faster than the host updates.
int chosen_gradient_buffers(const RunParts& parts, eps::StoreOptions store) {
  constexpr Bytes kShareOfState = 20, kShareOfRoom = 8;
  const int sharing = store.pushed_gradients(), few = 1 + 2 * sharing;
  const ModelLayout& layout = parts.model.layout;
  const bool scarce = parts.options.device.pinned_memory > 0;  // which buffers would take from the weights
  if (parts.device->uses_host_memory() || scarce || store.holds_gradients()) return few;
  store.staging_slots = few;
  const eps::StoreBytes needed = eps::ParameterStore::bytes_needed(layout, store);
  store.staging_slots += sharing;
  const Bytes all = needed.from_source(), limit = parts.options.eps.memory;
  const Bytes of_each = eps::ParameterStore::bytes_needed(layout, store).from_source() - all;  // one for each device
  if (of_each == 0) return few;
  const auto left_of = [&](Bytes bytes) { return bytes > all ? bytes - all : 0; };
  const Bytes capacity = HostMemory().capacity(store.rank.neighbours).bytes;
  Bytes room = std::min(needed.state / kShareOfState, left_of(capacity) / kShareOfRoom);
  if (limit > 0) room = std::min(room, left_of(limit));
  const auto layers = static_cast<Bytes>(layout.layers.size());
  return std::max(few, static_cast<int>(static_cast<Bytes>(sharing) * std::min(room / of_each, layers)));
}

// Of several processes, to a layer that a list has several times.
void check_contributions(const ResolvedOptions& options, const eps::StoreOptions& store) {
  if (!options.model.reserve) return;
  const std::int64_t uses = options.model.reserve->most_uses, sent = store.sent_gradients() * store.rank.count;
  if (uses * sent <= eps::kMostContributions) return;
  throw BadInput("model.reserve: most_uses = " + std::to_string(uses) + " with " + std::to_string(store.rank.count) +
                 " processes, which send " + std::to_string(sent) + " gradients of each use, makes " +
                 std::to_string(uses * sent) + " gradients of a layer in a step; at most " +
                 std::to_string(eps::kMostContributions) + " are possible: lower most_uses");
}

eps::StoreOptions store_options(const RunParts& parts) {
  const ResolvedOptions& options = parts.options;
  eps::StoreOptions store;
  store.wire = compute_dtype(options);
  store.gradients = gradient_dtype(options);
  store.update = options.optimizer.update == "eager" ? eps::UpdateMode::eager : eps::UpdateMode::after_backward;
  store.clip = clip_mode(options.optimizer.clip);
  store.max_norm = options.optimizer.max_norm;
  store.optimizer = optimizer_of(options.optimizer);
  store.moments = optimizers::parse_moment_formats(options.optimizer.moments);
  store.loss_scaling = options.precision.compute == "fp16";
  store.placement = parts.placement;
  store.devices = static_cast<int>(options.device.groups());
  store.devices_sum = parts.peers.gradients != nullptr;
  store.rank = options.rank;
  store.microbatches = options.device_microbatches();
  store.device_squares = options.batch.parts == 0 && options.device.tensor == 1;
  store.shard_wire = options.distributed.wire == "sharded";
  store.seed = options.run.seed;
  store.verify = options.eps.verify;
  const auto layers = static_cast<std::int64_t>(parts.model.layout.layers.size());
  const auto buffers = static_cast<int>(std::min(options.eps.gradient_buffers, layers));
  store.staging_slots = buffers > 0 ? buffers * store.pushed_gradients() : chosen_gradient_buffers(parts, store);
  check_contributions(options, store);
  return store;
}

ExecutionPlan execution_plan(const RunParts& parts) {
  const ResolvedOptions& options = parts.options;
  ExecutionPlan plan;
  plan.execution = options.device.execution == "resident" ? Execution::resident : Execution::relay;
  plan.tensor = static_cast<int>(options.device.tensor);
  plan.groups = static_cast<int>(options.device.groups());
  plan.first_group = options.rank.index * plan.groups;
  plan.gathers = parts.peers.weights != nullptr;
  plan.sums = parts.peers.gradients != nullptr;
  plan.microbatches = options.device_microbatches();
  if (options.batch.parts > 0) plan.parts = static_cast<int>(options.batch.parts / options.all_groups());
  plan.prefetch = static_cast<int>(options.transfer.prefetch);
  plan.gradients = gradient_dtype(options);
  return plan;
}

// device.kind = "auto" chooses once, for all of them.
Devices open_devices(const Options& options, std::string& choice) {
  device::DeviceSettings settings = device_settings(options);
  Devices devices;
  devices.push_back(device::open_device(settings, &choice));
  settings.kind = devices[0]->uses_host_memory() ? "host" : "cuda";
  for (std::int64_t i = 1; i < options.device.count; ++i) {
    ++settings.index;
    devices.push_back(device::open_device(settings));
  }
  return devices;
}

// Sets precision.compute where it is "auto", and says why. With `device` alone, since all are of one kind.
void choose_compute(RunParts& parts) {
  PrecisionOptions& precision = parts.options.precision;
  if (precision.compute != "auto") return;
  const auto choose = [&](const char* type, const std::string& why) {
    precision.compute = type;
    parts.compute_choice = std::string(type) + ", since " + why;
  };
  if (precision.tf32) return choose("fp32", "precision.tf32 is set");
  if (!parts.options.model.blocks.empty()) return choose("fp32", "the layers are a program's own");
  const std::string device = parts.device->uses_host_memory() ? "this processor" : "the GPU";
  if (parts.device->multiplies_fast(DType::bf16)) return choose("bf16", device + " has instructions for its products");
  choose("fp32", device + " has no instructions for products of bf16");
}

// nullptr: they cannot, as `reason` says.
std::shared_ptr<device::Peers> group_of(const RunParts& parts, device::PeerCall call, std::string& reason) {
  std::vector<device::Device*> members;
  for (const auto& device : parts.devices) members.push_back(device.get());
  return device::make_peers(members, call, reason);
}

// Of device.tensor devices from the first-th on. Throws BadInput where they cannot exchange rows.
std::shared_ptr<device::TensorGroup> tensor_group(const RunParts& parts, std::size_t first) {
  std::vector<device::Device*> members;
  const auto tensor = static_cast<std::size_t>(parts.options.device.tensor);
  for (std::size_t i = first; i < first + tensor; ++i) members.push_back(parts.devices[i].get());
  std::string reason;
  if (auto group = device::make_tensor_group(members, reason)) return group;
  throw BadInput("device.tensor = " + std::to_string(tensor) + ": GPUs exchange rows by NCCL, and " + reason +
                     "; install libnccl.so.2, or set device.tensor = 1 or device.kind = \"host\"",
                 of_key("device.tensor"));
}

// `known`: the devices have joined these already; else they do, before anything is compiled. Throws BadInput where they
// cannot.
void split_layers(RunParts& parts, std::vector<std::shared_ptr<device::TensorGroup>> known) {
  const auto tensor = static_cast<std::size_t>(parts.options.device.tensor);
  const bool joined = !known.empty();
  parts.peers.tensor = std::move(known);
  for (std::size_t i = 0; i < parts.devices.size() && !joined; ++i) {
    if (i % tensor == 0) parts.peers.tensor.push_back(tensor_group(parts, i));
    parts.devices[i]->join({parts.peers.tensor.back(), static_cast<int>(i % tensor)});
  }
  parts.weight_feed = "each device copies its share of a layer, split over " + std::to_string(tensor);
  parts.gradient_sums = "each device brings those of its share";
}

void choose_feed(RunParts& parts, std::shared_ptr<device::Peers> peers) {
  const std::string& feed = parts.options.device.feed;
  parts.weight_feed = "each device copies all of a layer";
  if (feed == "whole") return;
  if (feed == "auto" && parts.devices[0]->uses_host_memory()) {
    parts.weight_feed += ", since all are in the host's memory";
    return;
  }
  std::string reason;
  if (peers == nullptr) peers = group_of(parts, device::PeerCall::all_gather, reason);
  if (peers != nullptr) {
    parts.weight_feed = "each device copies 1/" + std::to_string(parts.devices.size()) +
                        " of a layer and gathers the rest by " + peers->description();
    parts.peers.weights = std::move(peers);
  } else if (feed == "gathered") {
    throw BadInput("device.feed = \"gathered\": " + reason + "; use \"whole\" or \"auto\"", of_key("device.feed"));
  } else {
    parts.weight_feed += ", since " + reason;
  }
}

// Why device.sums = "auto" leaves the sums to the host; empty: it does not.
std::string why_host_sums(const RunParts& parts, const eps::StoreOptions& store) {
  if (parts.devices[0]->uses_host_memory()) return "all are in the host's memory";
  if (!store.sums_are_smaller()) return "sums in fp32 are no fewer bytes";
  // GPUs load a kernel when it is first launched, which may wait for all that runs there: of two groups, also for a
  // call that waits for another GPU, which does the same.
  if (parts.peers.weights) return "weights are gathered, and both at once have not been tried on several GPUs";
  return "";
}

void choose_sums(RunParts& parts, std::shared_ptr<device::Peers> peers) {
  const std::string& sums = parts.options.device.sums;
  parts.gradient_sums = "the host sums those of all devices";
  if (sums == "host") return;
  eps::StoreOptions store;
  store.gradients = gradient_dtype(parts.options);
  store.devices = static_cast<int>(parts.devices.size());
  store.rank = parts.options.rank;
  std::string reason = sums == "auto" ? why_host_sums(parts, store) : "";
  if (!store.sums_are_subtrees()) {
    reason = std::to_string(store.devices) + " devices of a process are no power of two";
  }
  if (reason.empty() && peers == nullptr) peers = group_of(parts, device::PeerCall::all_to_all, reason);
  if (reason.empty()) {
    parts.gradient_sums =
        "each device sums 1/" + std::to_string(store.devices) + " of a layer's, exchanged by " + peers->description();
    parts.peers.gradients = std::move(peers);
  } else if (sums == "devices") {
    throw BadInput("device.sums = \"devices\": " + reason + "; use \"host\" or \"auto\"", of_key("device.sums"));
  } else {
    parts.gradient_sums += ", since " + reason;
  }
}

void find_available(RunParts& parts) {
  parts.device_available.reset();
  for (const auto& each : parts.devices) {
    const std::optional<Bytes> available = each->available_bytes();
    if (!available || (parts.device_available && *available >= *parts.device_available)) continue;
    parts.device_available = available;
    parts.tightest = each.get();
  }
}

}  // namespace

device::DeviceSettings device_settings(const Options& options) {
  int threads = static_cast<int>(options.device.threads);
  if (threads == 0 && options.device.count > 1) {
    threads = std::max(1, available_cores() / static_cast<int>(options.device.count));
  }
  return {options.device.kind,
          threads,
          options.transfer.link_bandwidth,
          static_cast<int>(options.device.index),
          options.device.graphs,
          options.device.pinned_memory,
          options.precision.tf32};
}

RunParts make_parts(ResolvedOptions options, Devices devices, PeerGroups peers) {
  RunParts parts;
  parts.options = std::move(options);
  parts.devices = std::move(devices);
  if (parts.devices.empty()) parts.devices = open_devices(parts.options, parts.device_choice);
  const auto count = static_cast<std::int64_t>(parts.devices.size());
  if (count != parts.options.device.count) {
    throw Error("a plan for device.count = " + std::to_string(parts.options.device.count) + " was given " +
                std::to_string(count) + " devices");
  }
  parts.device = parts.tightest = parts.devices[0].get();
  choose_compute(parts);
  if (parts.options.device.tensor > 1) {
    split_layers(parts, std::move(peers.tensor));
  } else if (count > 1) {
    choose_feed(parts, std::move(peers.weights));
    choose_sums(parts, std::move(peers.gradients));
  }
  make_models(parts);
  parts.placement = place_workers(read_topology(), {.threads = static_cast<int>(parts.options.eps.threads),
                                                    .feeds_device = !parts.device->uses_host_memory(),
                                                    .device_node = parts.device->numa_node()});
  parts.store = store_options(parts);
  parts.scaler = loss_scaler(parts.options.precision);
  parts.execution = execution_plan(parts);
  find_available(parts);
  return parts;
}

Devices RunParts::first_members() const {
  Devices first;
  for (std::size_t i = 0; i < devices.size(); i += static_cast<std::size_t>(execution.tensor)) {
    first.push_back(devices[i]);
  }
  return first;
}

RunParts with_micro_batch(RunParts parts, std::int64_t micro_batch) {
  parts.options.batch.micro_batch = micro_batch;
  parts.options.batch.micro_batches = parts.options.batch.minibatch / micro_batch;
  validate_options(parts.options);
  make_models(parts);
  parts.store = store_options(parts);
  parts.execution = execution_plan(parts);
  return parts;
}

void load_programs(RunParts& parts) {
  const auto its = [&](std::size_t i) -> const models::Model& { return parts.model_of(static_cast<int>(i)); };
  load_code(parts, its);
  for (const models::Model& shorter : parts.shorter) {
    const auto of_all = [&](std::size_t) -> const models::Model& { return shorter; };
    load_code(parts, of_all);
  }
  find_available(parts);
}

std::optional<DeviceLimit> device_limit(const RunParts& parts) {
  const Bytes set = parts.options.device.memory;
  if (set > 0 && (!parts.device_available || set <= *parts.device_available)) return DeviceLimit{set, "device.memory"};
  if (!parts.device_available) return std::nullopt;
  return DeviceLimit{*parts.device_available,
                     "what is free of " + parts.tightest->description() + " (less a reserve for the driver)"};
}

MinibatchShape RunParts::minibatch_shape() const {
  const auto words = [](const std::vector<models::SampleTensor>& tensors) {
    std::int64_t all = 0;
    for (const models::SampleTensor& tensor : tensors) all += tensor.words;
    return all;
  };
  return {.devices = static_cast<int>(options.all_groups()),
          .parts = static_cast<int>(options.batch.parts),
          .microbatches = static_cast<int>(options.batch.micro_batches),
          .rank = options.rank,
          .sequences = static_cast<int>(options.batch.micro_batch),
          .lengths = options.lengths,
          .packed = model.packed,
          .input_words = words(model.inputs),
          .target_words = words(model.targets)};
}

Bytes RunParts::device_peak_bytes() const {
  Bytes peak = 0;
  for (const auto& each : devices) peak = std::max(peak, each->peak_bytes());
  return peak;
}

void RunParts::set_trace(Trace* trace) const {
  for (const auto& each : devices) each->set_trace(trace);
}

}  // namespace l2l::runtime

#include "runtime/plan/run_plan.h"

#include <algorithm>

#include "core/host_memory.h"
#include "eps/checkpoint/checkpoint.h"
#include "runtime/options/batch_shape.h"
#include "runtime/plan/run_parts.h"

namespace l2l::runtime {
namespace {

// What a parameter costs beside its elements: names, events, entries of a manifest being written, and the rounding of
// its group's arrays to pages. Measured (docs/benchmarks.md, Host memory).
constexpr Bytes kBytesPerTensor = 2600;
// What a stream of a host device costs: its queue and the stack of its thread. Measured as growth per further device;
// those of the first one are within what is measured of the process.
constexpr Bytes kBytesPerStream = 296 * kKiB;

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

Devices require_count(Devices devices, const Options& options) {
  const auto count = static_cast<std::int64_t>(devices.size());
  if (count == options.device.count) return devices;
  throw Error("a plan for device.count = " + std::to_string(options.device.count) + " was given " +
              std::to_string(count) + " devices");
}

std::optional<Chosen> require_choice(std::optional<Chosen> chosen, const Options& options) {
  if (!chosen && options.recompute.leaves_choice()) {
    throw Error("recompute.policy = \"" + options.recompute.policy +
                "\" leaves open what blocks do: plan_run() chooses it");
  }
  return chosen;
}

std::vector<std::unique_ptr<Programs>> compile(const Devices& devices, const models::Model& model, DType gradients) {
  std::vector<std::unique_ptr<Programs>> programs;
  for (const auto& device : devices) programs.push_back(std::make_unique<Programs>(*device, model, gradients));
  return programs;
}

// What a group's update waits for, and what that costs.
std::string describe_update(const eps::StoreOptions& store, Bytes held) {
  if (!store.held()) return "eager: a layer is updated as soon as its gradients are there";
  std::string reasons;
  const auto add = [&](bool condition, const char* reason) {
    if (condition) reasons += (reasons.empty() ? "" : ", ") + std::string(reason);
  };
  add(store.clip == eps::ClipMode::global, "global clipping");
  add(store.loss_scaling, "loss scaling");
  add(store.update == eps::UpdateMode::after_backward, "optimizer.update = \"after_backward\"");
  return "held until the step's verdict: " + reasons + "; costs " + format_bytes(held) +
         " of held gradients; updates hide behind the next forward";
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
          /*library_gelu=*/options.recompute.policy == "full" && options.recompute.budget == 0};
}

Options resolved_options(const Options& given) {
  validate_options(given);
  Options options = given;
  options.batch = resolved(given.batch, given.device.count);
  if (options.recompute.policy == "budget") options.recompute.policy = "full";
  return options;
}

std::optional<DataFiles> training_data(const Options& options) {
  return find(options.data.train, options, "data.train");
}

std::optional<DataFiles> validation_data(const Options& options) {
  return find(options.data.validation, options, "data.validation");
}

// device.kind = "auto" chooses once, for all of them.
Devices open_devices(const Options& options, std::string* choice) {
  device::DeviceSettings settings = device_settings(options);
  Devices devices;
  devices.push_back(device::open_device(settings, choice));
  settings.kind = devices[0]->uses_host_memory() ? "host" : "cuda";
  for (std::int64_t i = 1; i < options.device.count; ++i) {
    ++settings.index;
    devices.push_back(device::open_device(settings));
  }
  return devices;
}

RunPlan::RunPlan(const Options& given, std::unique_ptr<device::Device> device)
    : RunPlan(given, Devices{std::shared_ptr<device::Device>(std::move(device))}) {}

RunPlan::RunPlan(const Options& given, Devices given_devices, std::optional<Chosen> given_choice, Limits limits)
    : options(resolved_options(given)),
      chosen(require_choice(std::move(given_choice), options)),
      train(training_data(options)),
      validation(validation_data(options)),
      device_choice(chosen ? chosen->device_choice : ""),
      devices(given_devices.empty() ? open_devices(options, &device_choice)
                                    : require_count(std::move(given_devices), options)),
      device(devices[0].get()),
      model(make_model(options)),
      placement(place_workers(read_topology(), {.threads = static_cast<int>(options.eps.threads),
                                                .feeds_device = !device->uses_host_memory(),
                                                .device_node = device->numa_node()})),
      store(store_options(options, placement)),
      scaler(loss_scaler(options.precision)),
      execution(execution_plan(options)) {
  if (!model.rebuilds) {
    recomputation = chosen ? chosen->arrangement.recomputation
                           : uniform_recomputation(model, compiler::remat::parse_policy(options.recompute.policy));
    verify(recomputation, model);
    apply(recomputation, model);
  }
  programs = compile(devices, model, execution.gradients);
  find_available();
  choose_places();
  write_contract();
  if (limits == Limits::checked) check_limits();
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

Bytes RunPlan::device_peak_bytes() const {
  Bytes peak = 0;
  for (const auto& each : devices) peak = std::max(peak, each->peak_bytes());
  return peak;
}

void RunPlan::set_trace(Trace* trace) const {
  for (const auto& each : devices) each->set_trace(trace);
}

void RunPlan::find_available() {
  tightest_ = device;
  for (const auto& each : devices) {
    const std::optional<Bytes> available = each->available_bytes();
    if (!available || (device_available && *available >= *device_available)) continue;
    device_available = available;
    tightest_ = each.get();
  }
}

// One for all: devices may differ in what their programs need beside it.
void RunPlan::make_arena() { arena = std::make_unique<ArenaPlan>(model, scratch_of(model, programs), execution); }

std::optional<RunPlan::DeviceLimit> RunPlan::device_limit() const {
  const Bytes set = options.device.memory;
  if (set > 0 && (!device_available || set <= *device_available)) return DeviceLimit{set, "device.memory"};
  if (!device_available) return std::nullopt;
  return DeviceLimit{*device_available,
                     "what is free of " + tightest_->description() + " (less a reserve for the driver)"};
}

bool RunPlan::fits() const {
  const std::optional<DeviceLimit> limit = device_limit();
  return !limit || arena->bytes() <= limit->bytes;
}

void RunPlan::choose_places() {
  if (chosen && !chosen->arrangement.places.empty()) {
    execution.places = chosen->arrangement.places;
    return make_arena();
  }
  const int blocks = model.blocks();
  execution.places = split_places(blocks, options.transfer.stash == "host" ? 0 : blocks);
  keep_weights(execution.places, blocks_that_come_again(model),
               static_cast<int>(std::max<std::int64_t>(0, options.transfer.resident_layers)));
  for (BlockPlace& place : execution.places) {
    if (model.rebuilds) place.stash = StashPlace::none;
  }
  make_arena();
  if (!model.rebuilds && options.transfer.stash == "auto" && !fits()) split_stash();
}

// Of as many blocks on the device as fit there, of the others on the host.
void RunPlan::split_stash() {
  const std::vector<BlockPlace> before = execution.places;
  const auto split = [&](int on_device) {
    execution.places = split_places(model.blocks(), on_device);
    for (std::size_t i = 0; i < before.size(); ++i) execution.places[i].weights_stay = before[i].weights_stay;
    make_arena();
  };
  int most = 0;
  for (int least_too_many = model.blocks(); least_too_many - most > 1;) {
    const int middle = (most + least_too_many) / 2;
    split(middle);
    (fits() ? most : least_too_many) = middle;
  }
  split(most);
}

void RunPlan::write_devices() {
  contract.devices = execution.devices;
  contract.device_choice = device_choice;
  for (const auto& each : devices) {
    const std::string description = each->description();
    if (!contract.device_description.ends_with(description)) {
      contract.device_description += (contract.device_description.empty() ? "" : ", ") + description;
    }
    contract.device_other_bytes = std::max(contract.device_other_bytes, each->other_bytes());
  }
  if (execution.devices > 1) {
    contract.device_description = std::to_string(execution.devices) + " devices: " + contract.device_description;
  }
  contract.device = arena->lines();
  contract.device_bytes = arena->bytes();
  contract.device_bytes_apart = arena->bytes_apart();
}

void RunPlan::write_contract() {
  const eps::StoreBytes bytes = eps::ParameterStore::bytes_needed(model.layout, store);
  const HostStaging staging = host_staging(model, execution);
  const auto count = static_cast<Bytes>(execution.devices);
  write_devices();
  contract.eps_placement = describe(placement);
  contract.parameters = model.layout.parameters();
  contract.blocks_stashed_on_device = execution.stashed(StashPlace::device);
  contract.resident_layers = execution.staying_weights();
  const bool mixed = execution.stashed(execution.place(1).stash) < model.blocks();
  contract.stash = mixed ? "split" : name_of(execution.place(1).stash);
  contract.update_mode = describe_update(store, bytes.held);
  contract.recomputation = recomputation.explanation;
  const Bytes batch = staging.batch + staging.squares;
  contract.pinned_bytes = bytes.state + bytes.held + bytes.staging + count * (staging.stash + staging.saved + batch);

  const auto add = [&](const char* what, Bytes line) {
    if (line == 0) return;
    contract.host.push_back({what, line});
    contract.host_bytes += line;
  };
  add("weights and optimizer state", bytes.state);
  add("held gradients", bytes.held);
  add("gradient staging", bytes.staging);
  add("stash (layer inputs)", count * staging.stash);
  add("stash (saved values)", count * staging.saved);
  add("batch staging", count * batch);
  if (device->uses_host_memory()) {
    add(count == 1 ? "device memory (the host device's arena)" : "device memory (the host devices' arenas)",
        count * arena->bytes());
    const Bytes of_stash = (staging.stash > 0 ? 2 : 0) + (staging.saved > 0 ? 2 : 0);
    add("streams of further devices", (count - 1) * (3 + of_stash) * kBytesPerStream);
    add("streams of saved values", (staging.saved > 0 ? 2 : 0) * kBytesPerStream);
  }
  add("training data", train ? train->bytes() : 0);
  add("validation data", validation ? validation->bytes() : 0);
  if (!options.checkpoint.directory.empty()) {
    add("buffers for saving and loading", eps::checkpoint_buffer_bytes());
  }
  add("names and bookkeeping of tensors", kBytesPerTensor * tensors(model.layout));
  add("process (code, libraries, threads)", HostMemory().resident());
  const Bytes peak = chosen ? chosen->peak : 0;
  add("more, while recomputation was measured", peak - std::min(peak, contract.host_bytes));
}

void RunPlan::check_limits() const {
  if (const std::optional<DeviceLimit> limit = device_limit()) {
    check_limit("device memory", limit->name, contract.device_bytes, limit->bytes,
                std::string("lower batch.micro_batch, batch.micro_batches (or batch.minibatch) or transfer.prefetch") +
                    (model.rebuilds ? "" : ", or set transfer.stash = \"host\" or recompute.policy = \"full\""));
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
    const HostStaging staging = host_staging(model, execution);
    check_limit("host stash", "eps.stash_memory",
                static_cast<Bytes>(execution.devices) * (staging.stash + staging.saved), options.eps.stash_memory,
                "lower batch.micro_batches, set recompute.policy = \"full\" or transfer.stash = \"device\"");
  }
  const HostMemory memory;
  const HostAvailable available = memory.available();
  check_limit("host memory", available.source, contract.host_bytes, memory.resident() + available.bytes,
              "lower model.layers, model.hidden or batch.micro_batches, or set recompute.policy = \"full\"");
}

}  // namespace l2l::runtime

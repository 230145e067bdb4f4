#include "runtime/plan/memory_contract.h"

#include <algorithm>

#include "core/host_memory.h"
#include "core/process_limits.h"
#include "core/workers.h"
#include "eps/checkpoint/checkpoint.h"
#include "l2l/errors.h"
#include "runtime/data/document_dataset.h"
#include "runtime/plan/memory_advice.h"

namespace l2l::runtime {
namespace {

// What a parameter costs beside its elements: names, events, and the rounding of its group's arrays to pages; and,
// while a checkpoint is saved, each tensor in its files: names, entries of headers and of the manifest. Measured
// (docs/benchmarks.md, Host memory).
constexpr Bytes kBytesPerTensor = 450;
constexpr Bytes kBytesPerSavedTensor = 340;
// Pages of code, libraries and stacks that a run touches after this was written: 0.6 to 2.0 MiB, up to
// 0.9 MiB apart between copies of one program: the kernel maps what is touched in the pieces that the page cache has of
// a file (tools/host_memory_check.py).
constexpr Bytes kBytesTouchedLater = 1232 * kKiB;
// What a stream of a host device costs: its queue and the stack of its thread; a thread that serves a device alone,
// such as the sender of its gradients, costs as much. Measured as growth per further device; those of the first one
// that every run has are within what is measured of the process.
constexpr Bytes kBytesPerStream = 296 * kKiB;
// What a thread costs that updates or reads ahead: the part of its stack that it touches, and the allocator's cache.
// Two and one of them are within what a run touches later.
constexpr Bytes kBytesPerThread = 64 * kKiB;
constexpr std::int64_t kThreadsOfFirst = 3;

Bytes tensors(const ModelLayout& layout) {
  Bytes count = 0;
  for (const GroupSpec& group : layout.groups) count += group.parameters.size();
  return count;
}

// Whether checkpoints hold what is trained alone.
bool without_frozen(const RunParts& parts) { return !parts.options.model.base.empty() && parts.options.lora.rank > 0; }

Bytes sum(const std::vector<ContractLine>& lines) {
  Bytes bytes = 0;
  for (const ContractLine& line : lines) bytes += line.bytes;
  return bytes;
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

void describe_devices(const RunPlan& plan, MemoryContract& contract) {
  std::string& text = contract.device_description;
  for (const auto& each : plan.devices) {
    const std::string description = each->description();
    if (!text.ends_with(description)) text += (text.empty() ? "" : ", ") + description;
    contract.device_other_bytes = std::max(contract.device_other_bytes, each->other_bytes());
    const device::LateBytes late = each->late_bytes();
    contract.device_graph_bytes = std::max(contract.device_graph_bytes, late.graphs);
    contract.device_late_bytes = std::max(contract.device_late_bytes, late.sum());
  }
  if (plan.execution.devices() > 1) text = std::to_string(plan.execution.devices()) + " devices: " + text;
}

// On processors: which other type of matrix products is faster than that of the options. Empty: none.
std::string precision_advice(const RunPlan& plan) {
  if (!plan.device->uses_host_memory()) return {};
  const DType compute = plan.model.compute;
  const auto advise = [](const std::string& other, const std::string& why) {
    return "precision.compute = \"" + other + "\" may be faster (with other rounding): this processor has " + why;
  };
  if (compute == DType::f32) {
    return plan.device->multiplies_fast(DType::bf16) ? advise("bf16", "instructions for products of bf16") : "";
  }
  if (plan.device->multiplies_fast(compute)) return {};
  return advise("fp32", "no instructions for products of " + plan.options.precision.compute);
}

}  // namespace

// Tokens stay in their files; what is known of documents does not.
Bytes document_bytes(const RunParts& parts, const DataFiles& files) {
  const Bytes ends = files.document_ends.size() * sizeof(files.document_ends[0]);
  if (sample_kind(parts.options) == SampleKind::stream) return ends;
  return ends + DocumentDataset::bytes(files, parts.options.model.sequence);
}

// What the ranks give each other of a validation's minibatch: this rank's rows, in a buffer that has grown up to twice
// that, and those of all.
Bytes exchanged_outputs(const RunParts& parts) {
  if (parts.options.rank.count == 1 || !parts.options.data.has_validation()) return 0;
  if (parts.model.head_kind == models::HeadKind::language) return 0;
  const Bytes of_microbatch = static_cast<Bytes>(parts.model.rows * parts.model.labels) * sizeof(float);
  const auto microbatches =
      static_cast<Bytes>(parts.execution.groups) * static_cast<Bytes>(parts.execution.microbatches);
  const auto times = static_cast<Bytes>(2 + parts.options.rank.count);
  return times * microbatches * (of_microbatch + 2 * parts.model.targets_bytes());
}

std::vector<ContractLine> host_lines(const RunParts& parts, const HostStaging& staging, Bytes arena) {
  const eps::StoreBytes store = eps::ParameterStore::bytes_needed(parts.model.layout, parts.store);
  const auto count = static_cast<Bytes>(parts.execution.devices());
  std::vector<ContractLine> lines;
  const auto add = [&](const char* what, Bytes bytes) {
    if (bytes > 0) lines.push_back({what, bytes});
  };
  add("weights and optimizer state", store.state);
  add("held gradients", store.held);
  add("gradient staging", store.staging);
  add("gradients from other ranks", store.received);
  add("sums over this rank's devices", store.sums);
  add("layers' weights from all ranks", store.visits);
  add("state of a group from all ranks, to save it", store.gathered);
  add("outputs of a validation, from all ranks", exchanged_outputs(parts));
  add("stash (layer inputs)", count * staging.stash);
  add("stash (saved values)", count * staging.saved);
  add("batch staging", count * (staging.batch + staging.squares));
  if (parts.device->uses_host_memory()) {
    add(count == 1 ? "device memory (the host device's arena)" : "device memory (the host devices' arenas)",
        count * arena);
    const Bytes of_stash = (staging.stash > 0 ? 2 : 0) + (staging.saved > 0 ? 2 : 0);
    add("streams and threads of further devices", (count - 1) * (4 + of_stash) * kBytesPerStream);
    add("streams of stashes", of_stash * kBytesPerStream);
    add("streams of gathers", parts.execution.gathers ? count * kBytesPerStream : 0);
  }
  const DataOptions& data = parts.options.data;
  const std::int64_t updaters = parts.options.eps.threads > 0 ? parts.options.eps.threads : available_cores();
  const std::int64_t threads = std::max<std::int64_t>(updaters + data.threads, kThreadsOfFirst) - kThreadsOfFirst;
  add("threads that update and that read ahead", static_cast<Bytes>(threads) * kBytesPerThread);
  if (data.has_training() || data.has_validation()) {
    add("samples that are read ahead", PreparedMinibatch::bytes(parts.minibatch_shape()));
  }
  Bytes documents = 0;
  for (const DataFiles& files : parts.options.train) documents += document_bytes(parts, files);
  add("documents of the training data", documents);
  if (parts.options.validation)
    add("documents of the validation data", document_bytes(parts, *parts.options.validation));
  if (parts.options.mismatched)
    add("documents of the mismatched validation data", document_bytes(parts, *parts.options.mismatched));
  const auto add_images = [&](const char* what, const std::shared_ptr<const ImageSource>& source) {
    if (source) add(what, source->images().bytes());
  };
  add_images("names and classes of the training images", parts.options.train_images);
  add_images("names and classes of the validation images", parts.options.validation_images);
  if (!parts.options.checkpoint.directory.empty()) {
    const std::size_t saved =
        eps::checkpoint_tensors(parts.model.layout, eps::state_types(parts.store), without_frozen(parts));
    add("buffers for saving and loading", eps::checkpoint_buffer_bytes() + kBytesPerSavedTensor * saved);
  }
  add("names and bookkeeping of tensors", kBytesPerTensor * tensors(parts.model.layout));
  add("lists of blocks of parameters, with checksums", store.blocks);
  add("process (code, libraries, threads)", HostMemory().resident() + kBytesTouchedLater);
  return lines;
}

eps::CheckpointSize checkpoint_size(const RunPlan& plan) {
  const std::vector<int> writers = eps::ParameterStore::writers(plan.model.layout, plan.store);
  return eps::checkpoint_size(plan.model.layout, eps::state_types(plan.store), without_frozen(plan), writers,
                              plan.store.rank.count);
}

MemoryContract memory_contract(const RunPlan& plan) { return memory_contract(plan, checkpoint_size(plan)); }

MemoryContract memory_contract(const RunPlan& plan, const eps::CheckpointSize& checkpoint) {
  const eps::StoreBytes store = eps::ParameterStore::bytes_needed(plan.model.layout, plan.store);
  const HostStaging staging = host_staging(plan.model, plan.execution);
  MemoryContract contract;
  contract.devices = plan.execution.devices();
  contract.nodes = plan.store.rank.count;
  contract.device_choice = plan.device_choice;
  contract.compute_choice = plan.compute_choice;
  contract.weight_feed = plan.weight_feed;
  contract.gradient_sums = plan.gradient_sums;
  contract.advice = precision_advice(plan);
  contract.checkpoint_bytes = checkpoint.bytes();
  describe_devices(plan, contract);
  contract.device = plan.arena->lines();
  contract.device_bytes = plan.arena->bytes();
  contract.device_bytes_apart = plan.arena->bytes_apart();
  contract.eps_placement = describe(plan.placement);
  contract.parameters = plan.model.layout.parameters();
  contract.trained_parameters = plan.model.layout.trained_parameters();
  contract.blocks_stashed_on_device = plan.execution.stashed(StashPlace::device);
  contract.resident_layers = plan.execution.staying_weights();
  const StashPlace first = plan.execution.placement(1).stash;
  contract.stash = plan.execution.stashed(first) < plan.model.kept_inputs() ? "split" : name_of(first);
  contract.update_mode = describe_update(plan.store, store.held + (plan.store.held() ? store.received : 0));
  contract.recomputation_summary = plan.decisions.summary;
  contract.recomputation = plan.decisions.explanation;
  contract.pinned_bytes = store.from_source() + static_cast<Bytes>(plan.execution.devices()) *
                                                    (staging.stash + staging.saved + staging.batch + staging.squares);
  contract.host = host_lines(plan, staging, plan.arena->bytes());
  contract.host_bytes = sum(contract.host);
  const Bytes peak = plan.decisions.peak;
  if (peak > contract.host_bytes) {
    contract.host.push_back({"more, while recomputation was measured", peak - contract.host_bytes});
    contract.host_bytes = peak;
  }
  return contract;
}

void add_generation(const GenerationPlan& generation, const RunPlan& plan, MemoryContract& contract) {
  for (const ContractLine& line : generation.lines()) contract.device.push_back(line);
  contract.device_bytes += generation.device_bytes();
  contract.device_bytes_apart += generation.device_bytes();
  contract.pinned_bytes += generation.staging_bytes();
  const auto add = [&](const char* what, Bytes bytes) {
    contract.host.push_back({what, bytes});
    contract.host_bytes += bytes;
  };
  add("staging of texts", generation.staging_bytes());
  add("logits of texts, in fp32", generation.logits_bytes());
  if (plan.device->uses_host_memory()) add("keys, values and activations of texts", generation.device_bytes());
}

void check_limits(const RunPlan& plan, const MemoryContract& contract, Advice advice) {
  const std::vector<ContractLimit> limits = contract_limits(plan, contract);
  for (const ContractLimit& limit : limits) {
    if (limit.holds()) continue;
    std::string others;
    for (const ContractLimit* other = &limit + 1; other < limits.data() + limits.size(); ++other) {
      if (other->holds()) continue;
      others += (others.empty() ? " (" : ", ") + other->what + " by " + format_bytes(other->need - other->have);
    }
    throw OutOfMemory(limit.what + ": needs " + format_bytes(limit.need) + " (" + std::to_string(limit.need) +
                      " bytes), " + limit.name + " is " + format_bytes(limit.have) + ", short by " +
                      format_bytes(limit.need - limit.have) + others + (others.empty() ? "" : " as well)") +
                      (advice == Advice::none ? "" : "; " + memory_advice(plan, contract, limit)));
  }
}

void check_process_limits(const RunPlan& plan, const MemoryContract& contract) {
  constexpr Bytes kSlack = 32 * kMiB;  // what allocators take in large pieces
  constexpr int kFiles = 16;           // a run had up to 8 open beside its standard ones
  // Threads beside workers; of a device that gathers, with both stashes on the host.
  constexpr int kOfRun = 5, kOfDevice = 11;
  const auto cores = static_cast<std::int64_t>(available_cores());
  const auto workers = [&](std::int64_t asked) { return asked > 0 ? asked : cores; };
  const std::int64_t threads = kOfRun + plan.options.data.threads - 1 + kOfDevice * plan.execution.devices() +
                               workers(plan.options.device.threads) + workers(plan.options.eps.threads);
  const Bytes resident = HostMemory().resident();
  check_address_space(std::max(contract.host_bytes, resident) - resident + kSlack, static_cast<int>(threads));
  check_open_files(kFiles);
}

}  // namespace l2l::runtime

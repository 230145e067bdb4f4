#include "eps/store_implementation.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/fault_point.h"
#include "core/log.h"
#include "eps/initial_weights.h"
#include "l2l/errors.h"
#include "optimizers/clip.h"

namespace l2l::eps {
namespace {

ModelLayout valid(ModelLayout layout) {
  layout.validate();
  return layout;
}

bool is_float_or_bf16(DType type) { return type == DType::f32 || type == DType::bf16; }

StoreOptions valid(const StoreOptions& options) {
  const auto require = [](bool condition, const char* what) {
    if (!condition) throw BadInput(std::string("parameter store: ") + what);
  };
  require(is_float_or_bf16(options.wire), "the wire must be f32 or bf16");
  require(is_float_or_bf16(options.gradients), "gradients must be f32 or bf16");
  require(options.devices >= 1, "at least one device is needed");
  require(options.threads >= 1, "at least one thread is needed");
  require(options.held() || options.staging_slots >= options.devices, "at least one staging slot per device is needed");
  require(options.clip == ClipMode::none || options.max_norm > 0, "max_norm must be above 0");
  return options;
}

}  // namespace

ParameterStore::Implementation::Implementation(ModelLayout model, const StoreOptions& store_options,
                                               MemorySource& source, Failure& run_failure, Trace* run_trace)
    : layout(valid(std::move(model))),
      options(valid(store_options)),
      failure(run_failure),
      trace(run_trace),
      track(run_trace != nullptr ? run_trace->add_track("eps updater") : 0),
      workers("eps", options.threads),
      hand_over(layout, options.devices, options.held()),
      slots(layout, options, source) {
  std::int64_t blocks = 0;
  for (std::size_t i = 0; i < layout.groups.size(); ++i) {
    const std::size_t contributions = hand_over.contributions(static_cast<GroupIndex>(i));
    groups.push_back({.memory = GroupMemory(layout.groups[i], options.wire, source),
                      .gradients = std::vector<const std::byte*>(contributions),
                      .slots = std::vector<int>(contributions)});
    draw_initial_weights(groups.back().memory, layout.groups[i], options.seed, workers);
    blocks = std::max(blocks, groups.back().memory.blocks());
  }
  block_sums.resize(static_cast<std::size_t>(blocks));
  for (const LayerSpec& layer : layout.layers) wires.push_back(wire_parts(layer));
  if (trace != nullptr) workers.set_trace(*trace, "eps worker");
  registration = failure.on_failure([this] {
    const auto guard = lock();
    notify();
  });
  updater = std::thread([this] { run_updater(); });
}

ParameterStore::Implementation::~Implementation() {
  {
    const auto guard = lock();
    stopping = true;
    if (leases > 0) log(LogLevel::error, "the parameter store is destroyed while a weight lease lives");
  }
  notify();
  updater.join();
}

const LayerSpec& ParameterStore::Implementation::layer_at(LayerIndex layer) const {
  if (layer >= 0 && static_cast<std::size_t>(layer) < layout.layers.size()) {
    return layout.layers[static_cast<std::size_t>(layer)];
  }
  throw Error("layer " + std::to_string(layer) + " of " + std::to_string(layout.layers.size()));
}

Bytes ParameterStore::Implementation::gradient_bytes(LayerIndex layer) const {
  return static_cast<Bytes>(layer_at(layer).elements) * size_of(options.gradients);
}

std::vector<WirePart> ParameterStore::Implementation::wire_parts(const LayerSpec& layer) const {
  std::vector<WirePart> parts;
  for (const LayerPart& part : layer.parts) {
    const std::span<const std::byte> bytes = groups[static_cast<std::size_t>(part.group)].memory.wire();
    parts.push_back({bytes.data(), bytes.size(), static_cast<Bytes>(part.offset) * size_of(options.wire)});
  }
  return parts;
}

bool ParameterStore::Implementation::leasable(LayerIndex layer, Version version) const {
  if (fault_point("eps.stale_version")) return true;
  const HandOver::Availability availability = hand_over.availability(layer, version);
  if (availability == HandOver::Availability::gone) {
    throw Error("layer " + layer_at(layer).name + ": version " + std::to_string(version) +
                " is asked for, but its update has begun");
  }
  return availability == HandOver::Availability::ready;
}

void ParameterStore::Implementation::push(LayerIndex layer, int device, int slot) {
  const std::vector<LayerPart>& parts = layer_at(layer).parts;
  hand_over.push(layer, device);
  if (parts.empty()) {
    slots.release(slot);
    return;
  }
  slots.share(slot, static_cast<int>(parts.size()));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    GroupData& group = groups[static_cast<std::size_t>(parts[i].group)];
    const std::size_t contribution = hand_over.contribution(layer, i, device);
    group.gradients[contribution] = slots.data(slot) + static_cast<Bytes>(parts[i].offset) * size_of(options.gradients);
    group.slots[contribution] = slot;
  }
}

void ParameterStore::Implementation::release_contributions(GroupIndex group) {
  for (const int slot : groups[static_cast<std::size_t>(group)].slots) slots.release(slot);
}

// Of several, the one whose last layer comes first in the backward pass: a NaN spreads from there downwards.
std::optional<GroupIndex> ParameterStore::Implementation::first_not_finite() const {
  std::optional<GroupIndex> first;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const GroupIndex group = static_cast<GroupIndex>(i);
    if (std::isfinite(groups[i].sum_of_squares)) continue;
    if (!first || hand_over.last_use(group) > hand_over.last_use(*first)) first = group;
  }
  return first;
}

StepVerdict ParameterStore::Implementation::close_step() {
  const Version step = hand_over.step();
  const std::optional<GroupIndex> broken = first_not_finite();
  if (broken) {
    if (options.held()) {
      for (std::size_t i = 0; i < groups.size(); ++i) release_contributions(static_cast<GroupIndex>(i));
    }
    hand_over.verdict(false);
    const GroupSpec& group = layout.groups[static_cast<std::size_t>(*broken)];
    const LayerSpec& layer = layer_at(hand_over.last_use(*broken));
    const std::string part = layer.parts.size() > 1 ? ", group " + group.name : "";
    throw NumericError("step " + std::to_string(step + 1) + ": layer " + layer.name + part +
                       ": gradient is not finite (NaN or infinity); weights and moments of the layer are unchanged");
  }
  double sum = 0;
  for (const GroupData& group : groups) sum += group.sum_of_squares;
  const double norm = std::sqrt(sum);
  if (options.held()) {
    const double factor = options.clip == ClipMode::global ? optimizers::clip_factor(norm, options.max_norm) : 1;
    for (GroupData& group : groups) {
      group.learning_rate = learning_rate;
      group.factor = static_cast<float>(factor);
    }
  }
  hand_over.verdict(true);
  return {norm};
}

}  // namespace l2l::eps

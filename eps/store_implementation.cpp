#include "eps/store_implementation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iomanip>
#include <sstream>
#include <utility>

#include "core/fault_point.h"
#include "core/log.h"
#include "core/memory_policy.h"
#include "eps/group_lanes.h"
#include "eps/initial_weights.h"
#include "l2l/errors.h"
#include "optimizers/clip.h"

namespace l2l::eps {
namespace {

ModelLayout valid(ModelLayout layout) {
  layout.validate();
  return layout;
}

static_assert(kMostDevices <= 64);  // bits of Slices::taken
std::uint64_t device_bit(int device) { return std::uint64_t{1} << device; }

std::vector<WorkerLane> lanes_of(const StoreOptions& options) {
  if (!options.placement.lanes.empty()) return options.placement.lanes;
  return {{-1, options.threads, {}}};
}

std::vector<int> lanes_of_groups(const ModelLayout& layout, const StoreOptions& options) {
  std::vector<Bytes> sizes;
  for (const GroupSpec& group : layout.groups) sizes.push_back(GroupMemory::bytes(group, options));
  std::vector<int> workers;
  for (const WorkerLane& lane : lanes_of(options)) workers.push_back(lane.workers);
  return spread_groups(sizes, workers);
}

StoreOptions valid(const StoreOptions& options) {
  const auto require = [](bool condition, const char* what) {
    if (!condition) throw BadInput(std::string("parameter store: ") + what);
  };
  require(is_compute_type(options.wire), "the wire must be f32, bf16 or f16");
  require(is_compute_type(options.gradients), "gradients must be f32, bf16 or f16");
  for (const DType type : {options.gradients, options.sent_type()}) {
    require(optimizers::has_update_kernels(type, optimizers::master_format(options.wire)),
            "f16 gradients need an f16 wire");
  }
  require(options.devices >= 1 && options.devices <= kMostDevices, "between 1 and 64 devices are possible");
  require(options.rank.index >= 0 && options.rank.index < options.rank.count, "there is no such rank");
  if (const std::string why = options.too_many(); !why.empty()) throw BadInput(why);
  optimizers::index_of(options.moments);  // throws where there is no kernel
  require(std::ranges::min(lanes_of(options), {}, &WorkerLane::workers).workers >= 1, "at least one thread is needed");
  require(options.holds_gradients() || options.staging_slots >= options.pushed_gradients(),
          "at least one staging slot per device is needed");
  require(!options.devices_sum || options.sums_are_subtrees(), "of several ranks, only a power of two of devices sums");
  require(options.clip == ClipMode::none || options.max_norm > 0, "max_norm must be above 0");
  return options;
}

}  // namespace

std::string StoreOptions::too_many() const {
  const int summands = sent_gradients() * rank.count;
  if (summands <= kMostSummands) return "";
  std::string text = std::to_string(rank.count) + " processes send " + std::to_string(summands) +
                     " gradients of each weight, and at most " + std::to_string(kMostSummands) + " can be added";
  if (sent_gradients() > 1) {
    text += "; one with " + std::to_string(2 * sizeof(float) / size_of(gradients)) +
            " devices, or a larger power of two, sends one";
  }
  return text;
}

ParameterStore::Implementation::Implementation(ModelLayout model, const StoreOptions& store_options,
                                               MemorySource& source, Failure& run_failure, Trace* run_trace,
                                               const WeightSource* weights)
    : layout(valid(std::move(model))),
      options(valid(store_options)),
      writers(ParameterStore::writers(layout, options)),
      failure(run_failure),
      trace(run_trace),
      save_track(run_trace != nullptr ? run_trace->add_track("eps saver") : 0),
      hand_over(layout, options.pushed_gradients(), options.held(), lanes_of_groups(layout, options), options.rank,
                options.sums_devices()),
      slots(layout, options, source),
      exchanged(layout, options, source),
      visits(layout, options, source) {
  add_lanes();
  for (std::size_t i = 0; i < layout.groups.size(); ++i) {
    const int lane = hand_over.lane(static_cast<GroupIndex>(i));
    add_group(layout.groups[i], lanes[static_cast<std::size_t>(lane)], source, weights);
  }
  set_wires();
  if (const Bytes room = gathered_bytes(layout, options); room > 0) {
    gather_room = source.allocate(room, "the state of a group from all ranks");
  }
  registration = failure.on_failure([this] { unlock_and_notify(lock()); });
  start_updaters();
}

void ParameterStore::Implementation::add_lanes() {
  for (const WorkerLane& place : lanes_of(options)) {
    const int index = static_cast<int>(lanes.size());
    lanes.emplace_back(index, options.placement.bound ? place : WorkerLane{-1, place.workers, {}});
    if (trace == nullptr) continue;
    const bool several = options.placement.lanes.size() > 1;
    const std::string of_node = several ? " of node " + std::to_string(place.node) : "";
    lanes.back().track = trace->add_track("eps updater" + of_node);
    lanes.back().workers.set_trace(*trace, "eps worker" + of_node);
  }
}

// allocate() touches the memory first, under the policy, which places it on the node.
void ParameterStore::Implementation::add_group(const GroupSpec& spec, Lane& lane, MemorySource& source,
                                               const WeightSource* weights) {
  const PreferredNode near(lane.node);
  const std::size_t contributions = hand_over.contributions(static_cast<GroupIndex>(groups.size()));
  groups.push_back({.memory = GroupMemory(spec, options, source),
                    .state_traffic = state_traffic(spec, options),
                    .gradients = std::vector<Contribution>(contributions),
                    .slots = std::vector<int>(contributions, -1)});
  const GroupMemory& memory = groups.back().memory;
  set_initial_weights(groups.back().memory, spec, options.seed, weights, lane.workers);
  groups.back().memory.seal();
  if (options.rank.count > 1) {
    groups.back().block_sums.resize(static_cast<std::size_t>(memory.cuts().back().block));
  } else {
    lane.block_sums.resize(std::max(lane.block_sums.size(), static_cast<std::size_t>(memory.blocks())));
  }
  lane.workspace.reserve(memory, options.optimizer);
}

void ParameterStore::Implementation::start_updaters() {
  try {
    for (Lane& lane : lanes) lane.updater = std::thread([this, &lane] { run_updater(lane); });
  } catch (...) {  // no more threads: those that run must be joined before the members go
    stop_updaters();
    throw;
  }
}

void ParameterStore::Implementation::stop_updaters() {
  {
    const auto guard = lock();
    stopping = true;
  }
  job_or_stop.notify_all();
  for (Lane& lane : lanes) {
    if (lane.updater.joinable()) lane.updater.join();
  }
}

ParameterStore::Implementation::~Implementation() {
  {
    const auto guard = lock();
    if (leases > 0 && !failure.failed())
      log(LogLevel::error, "the parameter store is destroyed while a weight lease lives");
    if (hand_over.saving()) log(LogLevel::error, "the parameter store is destroyed while its state is saved");
  }
  stop_updaters();
}

void ParameterStore::Implementation::notify_locked() {
  changed.notify_all();
  if (hand_over.has_job()) job_or_stop.notify_all();
}

void ParameterStore::Implementation::unlock_and_notify(std::unique_lock<std::mutex> guard) {
  const bool job = hand_over.has_job();
  guard.unlock();
  changed.notify_all();
  if (job) job_or_stop.notify_all();
}

const LayerSpec& ParameterStore::Implementation::layer_at(LayerIndex layer) const {
  if (layer >= 0 && static_cast<std::size_t>(layer) < layout.layers.size()) {
    return layout.layers[static_cast<std::size_t>(layer)];
  }
  throw Error("layer " + std::to_string(layer) + " of " + std::to_string(layout.layers.size()));
}

Bytes ParameterStore::Implementation::gradient_bytes(LayerIndex layer) const {
  layer_at(layer);
  return static_cast<Bytes>(layout.gradient_elements(layer)) * size_of(options.pushed_type());
}

std::vector<WirePart> ParameterStore::Implementation::wire_parts(const LayerSpec& layer) const {
  std::vector<WirePart> parts;
  for (const LayerPart& part : layer.parts) {
    const GroupMemory& memory = groups[static_cast<std::size_t>(part.group)].memory;
    const auto wire = memory.wire(part.begin, part.begin + layout.elements_of(part));
    parts.push_back({wire.data(), wire.size(), static_cast<Bytes>(part.offset) * size_of(options.wire)});
  }
  return parts;
}

void ParameterStore::Implementation::set_wires() {
  wires.clear();
  for (const LayerSpec& layer : layout.layers) {
    if (!options.shards_wires()) wires.push_back(wire_parts(layer));
  }
  uses = uses_of_groups();
  slices.assign(layout.layers.size(), {});
}

LayerIndex ParameterStore::Implementation::first_layer(GroupIndex group) const {
  const LayerIndex first = hand_over.first_use(group);
  return first == HandOver::kNoUse ? -1 : first;
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

bool ParameterStore::Implementation::is_whole_gradient(const LayerSpec& layer) const {
  std::size_t trained = 0, contributions = 0;
  for (const LayerPart& part : layer.parts) {
    trained += hand_over.contributions(part.group) > 0 ? 1 : 0;
    contributions += hand_over.contributions(part.group);
    // Of which the device's sum of squares has too much.
    if (groups[static_cast<std::size_t>(part.group)].memory.has_statistics()) return false;
  }
  return trained == 1 && contributions == 1;
}

void ParameterStore::Implementation::take_check(GroupIndex index, double sum_of_squares) {
  GroupData& group = groups[static_cast<std::size_t>(index)];
  group.sum_of_squares = sum_of_squares;
  if (options.held()) return;
  group.learning_rate = learning_rate;
  group.factor = factor_of(group, 0);  // without a hold no clipping needs the norm of all
  if (!std::isfinite(sum_of_squares)) release_contributions(index);
}

// Where devices sum, the first takes a slot for all.
std::optional<int> ParameterStore::Implementation::take_slot(LayerIndex layer, int device) {
  if (!options.devices_sum) return slots.take(layer, device);
  Slices& of_layer = slices[static_cast<std::size_t>(layer)];
  const std::uint64_t own = device_bit(device);
  if (of_layer.slot < 0) {
    const std::optional<int> slot = slots.take(layer, /*device=*/0);
    if (!slot) return slot;
    of_layer = {*slot, 0, options.devices};
  }
  if ((of_layer.taken & own) != 0) throw Error("layer " + layer_at(layer).name + ": a device brings two slices");
  of_layer.taken |= own;
  return of_layer.slot;
}

void ParameterStore::Implementation::push_slice(LayerIndex layer, int device, int slot) {
  Slices& of_layer = slices[static_cast<std::size_t>(layer)];
  if (slot != of_layer.slot || (of_layer.taken & device_bit(device)) == 0) {
    throw Error("layer " + layer_at(layer).name + ": a slice comes from a device that has no buffer for it");
  }
  if (--of_layer.missing > 0) return;
  of_layer = {};
  if (fault_point("eps.lost_contribution")) std::memset(slots.data(slot), 0, gradient_bytes(layer));
  push(layer, /*device=*/0, slot, /*squares=*/std::nullopt);
}

// Of a buffer that is given up.
void ParameterStore::Implementation::return_slot(LayerIndex layer, int device, int slot) {
  if (options.devices_sum) {
    Slices& of_layer = slices[static_cast<std::size_t>(layer)];
    of_layer.taken &= ~device_bit(device);
    if (of_layer.taken != 0) return;  // by another that has it, or has pushed
    of_layer = {};
  }
  slots.release(slot);
}

void ParameterStore::Implementation::push(LayerIndex layer, int device, int slot, std::optional<double> squares) {
  const std::vector<LayerPart>& parts = layer_at(layer).parts;
  const bool checked = squares && options.device_squares && is_whole_gradient(layer_at(layer));
  hand_over.push(layer, device, checked ? std::optional(std::isfinite(*squares)) : std::nullopt);
  if (device > 0 && fault_point("eps.lost_contribution")) std::memset(slots.data(slot), 0, gradient_bytes(layer));
  const auto trained = [&](const LayerPart& part) { return layout.gradient_elements_of(part) > 0; };
  const auto shared = static_cast<int>(std::ranges::count_if(parts, trained));
  if (shared == 0) {
    slots.release(slot);
    return;
  }
  slots.share(slot, shared);
  const auto whole = [&](const LayerPart& part) {
    return layout.gradient_elements_of(part) == layout.elements_of(part);
  };
  const bool like_wire = std::ranges::all_of(parts, whole);
  std::int64_t end = 0;  // of the gradients of the parts so far
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!trained(parts[i])) continue;
    const std::int64_t elements = layout.gradient_elements_of(parts[i]);
    GroupData& group = groups[static_cast<std::size_t>(parts[i].group)];
    const std::size_t contribution = hand_over.contribution(layer, i, device);
    group.gradients.resize(hand_over.contributions(parts[i].group));  // others than before, where layers were exchanged
    group.slots.resize(group.gradients.size(), -1);
    const auto begin = static_cast<Bytes>(like_wire ? parts[i].offset : end);
    group.gradients[contribution] = {slots.data(slot) + begin * size_of(options.pushed_type()), parts[i].begin,
                                     parts[i].begin + elements};
    group.slots[contribution] = slot;
    end += elements;
    if (checked) take_check(parts[i].group, *squares);  // gives the slot back where it is not finite
  }
}

void ParameterStore::Implementation::release_contributions(GroupIndex index) {
  GroupData& group = groups[static_cast<std::size_t>(index)];
  for (const int slot : group.slots) {
    if (slot >= 0) slots.release(slot);  // of this rank
  }
  if (group.received_slot >= 0) exchanged.received.release(std::exchange(group.received_slot, -1));
}

// Of several, the one whose last layer comes first in the backward pass, from which a NaN spreads.
std::optional<GroupIndex> ParameterStore::Implementation::first_not_finite() const {
  std::optional<GroupIndex> first;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const GroupIndex group = static_cast<GroupIndex>(i);
    if (std::isfinite(groups[i].sum_of_squares)) continue;
    if (!first || hand_over.last_use(group) > hand_over.last_use(*first)) first = group;
  }
  return first;
}

// In the order of the groups of a model that has just these layers: the sum is the same, to the bit.
double ParameterStore::Implementation::sum_over_groups() const {
  double sum = 0;
  const auto add = [&](GroupIndex group) { sum += groups[static_cast<std::size_t>(group)].sum_of_squares; };
  const ModelLayout::Exchange exchange = layout.exchange.value_or(ModelLayout::Exchange());
  for (GroupIndex group = 0; group < exchange.first_group; ++group) add(group);
  for (LayerIndex layer = 0; static_cast<std::size_t>(layer) < layout.layers.size(); ++layer) {
    for (const LayerPart& part : layer_at(layer).parts) {
      const bool exchanged = part.group >= exchange.first_group && part.group < exchange.end_group;
      if (exchanged && hand_over.first_use(part.group) == layer) add(part.group);
    }
  }
  for (GroupIndex group = exchange.end_group; static_cast<std::size_t>(group) < groups.size(); ++group) add(group);
  return sum;
}

double ParameterStore::Implementation::norm_of(double sum_of_squares) const {
  return std::sqrt(sum_of_squares) / scale.factor;
}

float ParameterStore::Implementation::factor_of(const GroupData& group, double norm) const {
  double factor = 1;
  if (options.clip == ClipMode::global) factor = optimizers::clip_factor(norm, options.max_norm);
  if (options.clip == ClipMode::per_layer) {
    factor = optimizers::clip_factor(norm_of(group.sum_of_squares), options.max_norm);
  }
  return static_cast<float>(factor / scale.factor);
}

std::string ParameterStore::Implementation::why_overflow_stays() const {
  if (!options.loss_scaling) return "";
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (groups[i].memory.wire_overflows()) {
      return "; group " + layout.groups[i].name +
             " has weights beyond 65504, the largest in fp16: lower the learning rate, or compute in bf16";
    }
  }
  std::ostringstream text;
  text << " with a loss scale of " << std::setprecision(10) << scale.factor
       << ", which is fixed or at its least: lower it or the learning rate, or compute in bf16";
  if (options.shards_wires()) text << " (unless another rank names weights beyond 65504)";
  return text.str();
}

void ParameterStore::Implementation::refuse_step(GroupIndex broken) {
  const Version step = hand_over.step();
  options.held() ? hand_over.skip() : hand_over.verdict(false);
  const GroupSpec& group = layout.groups[static_cast<std::size_t>(broken)];
  const LayerSpec& layer = layer_at(hand_over.last_use(broken));
  const std::string part = layer.parts.size() > 1 ? ", group " + group.name : "";
  throw NumericError("step " + std::to_string(step + 1) + ": layer " + layer.name + part +
                         ": gradient is not finite (NaN or infinity)" + why_overflow_stays() +
                         "; weights and moments of " + (options.held() ? "all layers" : "the layer") + " are unchanged",
                     /*nothing_changed=*/options.held());
}

StepVerdict ParameterStore::Implementation::close_step() {
  const std::optional<GroupIndex> broken = first_not_finite();
  const double sum = sum_over_groups();
  const StepVerdict verdict{norm_of(sum), broken && options.held() && scale.overflow_skips};
  if (broken && options.held() && !fault_point("eps.update_on_overflow")) {
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const auto group = static_cast<GroupIndex>(i);
      if (hand_over.contributions(group) > 0) release_contributions(group);
    }
    if (!verdict.skipped) refuse_step(*broken);
    hand_over.skip();
    return verdict;
  }
  if (broken && !options.held()) refuse_step(*broken);
  if (options.held()) {
    // Negative control: the norm is taken before the last group to arrive, the first in order.
    const double early = fault_point("eps.early_norm") ? groups[0].sum_of_squares : 0;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      if (hand_over.contributions(static_cast<GroupIndex>(i)) == 0) continue;  // its update may be pending
      groups[i].learning_rate = learning_rate;
      groups[i].factor = factor_of(groups[i], norm_of(sum - early));
    }
  }
  hand_over.verdict(true);
  return verdict;
}

}  // namespace l2l::eps

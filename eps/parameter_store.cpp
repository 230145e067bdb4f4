#include "eps/parameter_store.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "core/log.h"
#include "eps/store_implementation.h"
#include "l2l/errors.h"

namespace l2l::eps {

std::span<const WirePart> WeightLease::parts() const {
  if (!store_) return {};
  if (const std::optional<VisitId> visit = store_.get_deleter().visit) {
    const auto guard = store_->implementation_->lock();
    return store_->implementation_->visits.parts(*visit);
  }
  return store_->implementation_->wires[static_cast<std::size_t>(store_.get_deleter().layer)];
}

void WeightLease::Release::operator()(ParameterStore* store) const noexcept {
  ParameterStore::Implementation& self = *store->implementation_;
  try {
    auto guard = self.lock();
    if (visit && !self.visits.release(*visit)) return;
    self.hand_over.release(layer);
    --self.leases;
    self.unlock_and_notify(std::move(guard));
  } catch (const std::exception& error) {
    log(LogLevel::error, std::string("while a lease was released: ") + error.what());
  }
}

void GradientBuffer::Return::operator()(ParameterStore* store) const {
  ParameterStore::Implementation& self = *store->implementation_;
  auto guard = self.lock();
  self.return_slot(layer, device, slot);
  self.unlock_and_notify(std::move(guard));
}

StoreBytes ParameterStore::bytes_needed(const ModelLayout& layout, const StoreOptions& options) {
  StoreBytes bytes;
  for (const GroupSpec& group : layout.groups) {
    bytes.state += GroupMemory::bytes(group, options);
    bytes.blocks += GroupMemory::list_bytes(group, options);
  }
  const ExchangeSlots::Total exchanged = ExchangeSlots::bytes(layout, options);
  bytes.received = exchanged.received;
  bytes.sums = exchanged.sums;
  bytes.visits = WireVisits::bytes(layout, options);
  bytes.gathered = Implementation::gathered_bytes(layout, options);
  (options.holds_gradients() ? bytes.held : bytes.staging) = GradientSlots::bytes(layout, options);
  return bytes;
}

Bytes ParameterStore::bytes_moved(const ModelLayout& layout, const StoreOptions& options) {
  Bytes bytes = 0;
  const std::vector<int> uses = layout.uses();
  for (const GroupSpec& group : layout.groups) bytes += Implementation::state_traffic(group, options);
  for (const LayerSpec& layer : layout.layers) {
    for (const LayerPart& part : layer.parts) {
      const auto trained = [&](const LayerPart& each) { return layout.gradient_elements_of(each) > 0; };
      const auto index = static_cast<std::size_t>(part.group);
      const GroupSpec& group = layout.groups[index];
      const bool checked_by_device = options.device_squares && options.devices == 1 && options.rank.count == 1 &&
                                     uses[index] == 1 && std::ranges::count_if(layer.parts, trained) == 1 &&
                                     !group.has_statistics();
      const ElementRange own = Implementation::shard_of(group, options);
      const Bytes gradients =
          static_cast<Bytes>(gradients_of(layout, part).common(own).count()) * size_of(options.sent_type());
      bytes +=
          (checked_by_device ? 1 : 2) * static_cast<Bytes>(options.sent_gradients() * options.rank.count) * gradients;
      bytes += Implementation::sum_traffic(layout.gradient_elements_of(part), options);
    }
  }
  return bytes;
}

ParameterStore::ParameterStore(ModelLayout layout, StoreOptions options, MemorySource& memory, Failure& failure,
                               Trace* trace, const WeightSource* weights)
    : implementation_(std::make_unique<Implementation>(std::move(layout), options, memory, failure, trace, weights)) {}

ParameterStore::~ParameterStore() = default;

const ModelLayout& ParameterStore::layout() const { return implementation_->layout; }

int ParameterStore::moments() const { return optimizers::moments_of(implementation_->options.optimizer); }

optimizers::MomentFormats ParameterStore::moment_formats() const { return implementation_->options.moments; }

WeightLease ParameterStore::pull(LayerIndex layer, Version version, std::chrono::nanoseconds* waited, int device) {
  Implementation& self = *implementation_;
  self.layer_at(layer);
  const Clock::time_point begin = Clock::now();
  bool blocked = false;
  auto guard = self.lock();
  std::optional<VisitId> visit;
  if (self.options.shards_wires()) visit = self.take_visit(device, layer, version);
  self.wait(guard, [&] {
    const bool ready = visit ? self.visits[*visit].there : self.leasable(layer, version);
    blocked = blocked || !ready;
    return ready;
  });
  if (waited != nullptr) *waited = blocked ? Clock::now() - begin : Clock::duration::zero();
  return make_lease(layer, visit);
}

std::optional<WeightLease> ParameterStore::try_pull(LayerIndex layer, Version version, int device) {
  Implementation& self = *implementation_;
  self.layer_at(layer);
  self.failure.rethrow();
  const auto guard = self.lock();
  if (self.options.shards_wires()) {
    if (!self.visits.is_there(device)) return std::nullopt;
    return make_lease(layer, self.take_visit(device, layer, version));
  }
  if (!self.leasable(layer, version)) return std::nullopt;
  return make_lease(layer, std::nullopt);
}

WeightLease ParameterStore::make_lease(LayerIndex layer, std::optional<std::uint64_t> visit) {
  if (!visit) {
    implementation_->hand_over.lease(layer);
    ++implementation_->leases;
  }
  WeightLease lease;
  lease.store_ = {this, {layer, visit}};
  return lease;
}

void ParameterStore::announce(int device, std::span<const LayerIndex> layers, Version version, bool alone) {
  Implementation& self = *implementation_;
  if (!self.options.shards_wires()) return;
  auto guard = self.lock();
  self.visits.announce(device, layers, version, alone ? 1 : self.options.devices);
  self.unlock_and_notify(std::move(guard));
}

void ParameterStore::set_layers(std::vector<LayerSpec> layers) {
  Implementation& self = *implementation_;
  if (!self.layout.exchange) throw Error("the layers of this parameter store are not exchanged");
  auto guard = self.lock();
  self.wait(guard, [&] { return self.leases == 0; });
  self.hand_over.set_layers(layers);
  self.layout.layers = std::move(layers);
  self.set_wires();
}

void ParameterStore::begin_step(std::uint64_t step, double learning_rate, const GradientScale& scale) {
  Implementation& self = *implementation_;
  self.failure.rethrow();
  const auto guard = self.lock();
  self.hand_over.begin_step(step);
  for (std::size_t i = 0; i < self.groups.size(); ++i) {
    if (self.hand_over.contributions(static_cast<GroupIndex>(i)) == 0) self.groups[i].sum_of_squares = 0;
  }
  self.learning_rate = static_cast<float>(learning_rate);
  self.scale = scale;
}

GradientBuffer ParameterStore::gradient_buffer(LayerIndex layer, int device) {
  Implementation& self = *implementation_;
  GradientBuffer buffer;
  const Bytes bytes = self.gradient_bytes(layer);
  if (device < 0 || device >= self.options.devices) {
    throw Error("device " + std::to_string(device) + " of " + std::to_string(self.options.devices));
  }
  auto guard = self.lock();
  std::optional<int> slot;
  self.wait(guard, [&] {
    if (self.hand_over.accepts(layer)) slot = self.take_slot(layer, device);
    return slot.has_value();
  });
  buffer.store_ = {this, {layer, device, *slot}};
  buffer.data_ = self.slots.data(*slot);
  buffer.bytes_ = bytes;
  return buffer;
}

void ParameterStore::push(LayerIndex layer, int device, GradientBuffer gradients, std::optional<double> squares) {
  Implementation& self = *implementation_;
  if (gradients.store_.get() != this || gradients.bytes() != self.gradient_bytes(layer)) {
    throw Error("layer " + self.layer_at(layer).name + ": gradients come in a buffer that is not its own");
  }
  auto guard = self.lock();
  const int slot = gradients.store_.get_deleter().slot;
  if (self.options.devices_sum) {
    self.push_slice(layer, device, slot);
  } else {
    self.push(layer, device, slot, squares);
  }
  static_cast<void>(gradients.store_.release());  // the slot is the hand-over's now
  self.unlock_and_notify(std::move(guard));
}

// Unlocks before Failure::fail(), whose wakers take the mutex.
StepVerdict ParameterStore::finish_step() {
  Implementation& self = *implementation_;
  auto guard = self.lock();
  if (!self.hand_over.open()) throw Error("finish_step() without begin_step()");
  self.wait(guard, [&] { return self.hand_over.all_checked(); });
  try {
    const StepVerdict verdict = self.close_step();
    self.unlock_and_notify(std::move(guard));
    return verdict;
  } catch (const NumericError& error) {
    if (error.nothing_changed()) {
      self.unlock_and_notify(std::move(guard));
      throw;
    }
    guard.unlock();
    self.failure.fail(std::current_exception());
    throw;
  }
}

void ParameterStore::complete_updates() {
  Implementation& self = *implementation_;
  auto guard = self.lock();
  if (self.hand_over.open()) throw Error("complete_updates() before finish_step()");
  self.wait(guard, [&] { return self.hand_over.all_resting(); });
}

DType ParameterStore::wire_type() const { return implementation_->options.wire; }

double ParameterStore::gradient_norm(GroupIndex group) const {
  const auto guard = implementation_->lock();
  return implementation_->norm_of(implementation_->groups.at(static_cast<std::size_t>(group)).sum_of_squares);
}

EpsWork ParameterStore::work() const {
  const Implementation& self = *implementation_;
  return {self.bytes_moved.load(std::memory_order_relaxed), std::chrono::nanoseconds(self.busy_ns.load())};
}

}  // namespace l2l::eps

#include "runtime/arena_plan.h"

#include <algorithm>

#include "transfer/gradient_drain.h"
#include "transfer/stash.h"

namespace l2l::runtime {
namespace {

constexpr Bytes kAlignment = 256;
constexpr std::size_t kDrainSlots = 2;  // one being filled while the other leaves

// In units of one parameter's `size`.
std::vector<Bytes> per_layer(const models::Model& model, Bytes size) {
  std::vector<Bytes> sizes;
  for (const LayerSpec& layer : model.layout.layers) sizes.push_back(static_cast<Bytes>(layer.elements) * size);
  return sizes;
}

}  // namespace

ArenaPlan::ArenaPlan(const models::Model& model, const Programs& programs, const ExecutionPlan& plan)
    : parts_(static_cast<std::size_t>(ArenaPart::count)) {
  const Bytes activation = model.activation_bytes();
  const Bytes largest = static_cast<Bytes>(model.layout.largest_layer());
  const auto microbatches = static_cast<std::size_t>(plan.microbatches);
  const auto live = static_cast<std::size_t>(plan.live_microbatches());
  const auto ahead = static_cast<std::size_t>(plan.prefetch) + 1;

  if (plan.execution == Execution::relay) {
    add(ArenaPart::weights, "weight slots", largest * size_of(model.compute), ahead);
    add(ArenaPart::accumulators, "gradient accumulators (fp32)", largest * size_of(DType::f32), 1);
  } else {
    add(ArenaPart::weights, "weights of all layers", per_layer(model, size_of(model.compute)));
    add(ArenaPart::accumulators, "gradients of all layers (fp32)", per_layer(model, size_of(DType::f32)));
  }
  add(ArenaPart::drain, "gradients on their way out", transfer::drained_bytes(largest * size_of(plan.gradients)),
      kDrainSlots);
  if (plan.stash == StashPlace::device) {
    add(ArenaPart::activations, "stash (layer inputs)", activation,
        transfer::device_stash_buffers(model.blocks(), plan.live_microbatches()));
  } else {
    add(ArenaPart::activations, "layer inputs on their way to the stash", activation, live + 1);
    add(ArenaPart::fetch, "layer inputs on their way back", activation, ahead);
  }
  add(ArenaPart::input_gradients, "gradients of layer inputs", activation, live + 1);
  add(ArenaPart::scratch, "scratch of one layer and microbatch", programs.scratch_bytes(), 1);
  add(ArenaPart::batch, "token ids and targets", static_cast<Bytes>(model.rows) * size_of(DType::i32),
      2 * microbatches);
  add(ArenaPart::losses, "losses", size_of(DType::f64), microbatches);
  if (model.chunks.count == 0) {
    add(ArenaPart::logits, "logits of one token", static_cast<Bytes>(model.vocabulary) * size_of(model.compute), 1);
  } else {
    add(ArenaPart::carry, "head in " + std::to_string(model.chunks.count) + " vocabulary chunks", model.carry_bytes(),
        live);
  }
}

void ArenaPlan::add(ArenaPart part, std::string what, Bytes size, std::size_t count) {
  add(part, std::move(what), std::vector<Bytes>(count, size));
}

void ArenaPlan::add(ArenaPart part, std::string what, const std::vector<Bytes>& sizes) {
  Part& entry = parts_[static_cast<std::size_t>(part)];
  entry.what = std::move(what);
  const Bytes begin = bytes_;
  for (const Bytes size : sizes) {
    entry.offsets.push_back(bytes_);
    entry.sizes.push_back(size);
    bytes_ = align_up(checked_add(bytes_, size, "device memory"), kAlignment);
  }
  entry.total = bytes_ - begin;
}

std::vector<device::BufferView> ArenaPlan::views(ArenaPart part, device::BufferView arena) const {
  const Part& entry = parts_[static_cast<std::size_t>(part)];
  std::vector<device::BufferView> views;
  for (std::size_t i = 0; i < entry.sizes.size(); ++i) views.push_back(arena.slice(entry.offsets[i], entry.sizes[i]));
  return views;
}

std::vector<ContractLine> ArenaPlan::lines() const {
  std::vector<ContractLine> lines;
  for (const Part& part : parts_) {
    if (part.sizes.empty()) continue;
    const bool equal =
        std::all_of(part.sizes.begin(), part.sizes.end(), [&](Bytes size) { return size == part.sizes[0]; });
    std::string what = part.what;
    if (part.sizes.size() > 1 && equal)
      what += " (" + std::to_string(part.sizes.size()) + " x " + format_bytes(part.sizes[0]) + ")";
    lines.push_back({what, part.total});
  }
  return lines;
}

HostStaging host_staging(const models::Model& model, const ExecutionPlan& plan) {
  HostStaging staging;
  if (plan.stash == StashPlace::host) {
    staging.stash =
        checked_multiply(model.activation_bytes(),
                         static_cast<Bytes>(model.blocks()) * static_cast<Bytes>(plan.live_microbatches()), "stash");
  }
  const auto microbatches = static_cast<Bytes>(plan.microbatches);
  staging.batch = microbatches * (2 * static_cast<Bytes>(model.rows) * size_of(DType::i32) + size_of(DType::f64)) +
                  static_cast<Bytes>(model.vocabulary) * size_of(model.compute);
  staging.squares = size_of(DType::f64);
  return staging;
}

}  // namespace l2l::runtime

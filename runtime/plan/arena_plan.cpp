#include "runtime/plan/arena_plan.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "compiler/memory/planner.h"
#include "transfer/gradient_drain.h"
#include "transfer/stash.h"

namespace l2l::runtime {
namespace {

using compiler::memory::Index;
using compiler::memory::StreamProgram;

constexpr Bytes kAlignment = 256;
constexpr std::size_t kDrainSlots = 2;  // one being filled while the other leaves
constexpr std::size_t kSavedSlots = 2;  // likewise
constexpr std::size_t kNoTensor = ~std::size_t{0};

// Ops in the order of Phase.
StreamProgram phases() {
  constexpr std::size_t kCompute = 0, kStore = 1, kFetch = 2, kStoreSaved = 3, kFetchSaved = 4;
  const auto op = [](Phase phase) { return static_cast<Index>(phase); };
  StreamProgram program;
  program.streams = 5;
  program.alignment = kAlignment;
  program.ops = {kCompute, kStore, kFetch, kStoreSaved, kFetchSaved, kCompute, kCompute, kCompute};
  program.events = {{op(Phase::forward), op(Phase::store)},           {op(Phase::store), op(Phase::fetch)},
                    {op(Phase::fetch), op(Phase::backward)},          {op(Phase::forward), op(Phase::store_saved)},
                    {op(Phase::store_saved), op(Phase::fetch_saved)}, {op(Phase::fetch_saved), op(Phase::backward)}};
  return program;
}

std::string scratch_name(Phase phase) {
  if (phase == Phase::forward) return "scratch of the forward pass";
  if (phase == Phase::head) return "scratch of the head";
  return phase == Phase::backward ? "scratch of the blocks' backward pass" : "scratch of the embedding's backward pass";
}

// " (4 x 1.00 MiB)"; empty for one buffer, and where those that are not empty differ.
std::string times(const BufferSizes& sizes) {
  std::size_t count = 0;
  for (const BufferSizes::Run& run : sizes.runs()) {
    if (run.size != 0 && run.size != sizes.largest()) return "";
    count += run.size == 0 ? 0 : run.count;
  }
  return count > 1 ? " (" + std::to_string(count) + " x " + format_bytes(sizes.largest()) + ")" : "";
}

// A reversible model's embedding in chunks makes its rows in the memory of these gradients.
std::vector<Phase> gradient_phases(const models::Model& model) {
  std::vector<Phase> phases{Phase::head, Phase::backward, Phase::embedding};
  if (model.embedding_carries()) phases.insert(phases.begin(), Phase::forward);
  return phases;
}

}  // namespace

Phase phase_of(const models::Model& model, int layer, bool backward) {
  if (layer >= model.head()) return Phase::head;
  if (!backward) return Phase::forward;
  return layer > model.block(0) ? Phase::backward : Phase::embedding;
}

ArenaPlan::ArenaPlan(const models::Model& model, const Scratch& scratch, const ExecutionPlan& plan)
    : program_(phases()), of_part_(static_cast<std::size_t>(ArenaPart::count), kNoTensor) {
  const auto microbatches = static_cast<std::size_t>(plan.microbatches);
  const auto live = static_cast<std::size_t>(plan.live_microbatches());
  add_weights(model, plan);
  add_gradients(model, plan);
  add_stash(model, plan);
  add_saved(model, plan);
  add(ArenaPart::input_gradients, "gradients of layer inputs", BufferSizes(live + 1, model.input_gradient_bytes()),
      gradient_phases(model));
  // One scratch per phase: its programs run one after the other.
  for (const auto& [phase, bytes] : scratch) scratch_of_[phase] = add(scratch_name(phase), {1, bytes}, {phase});
  add(ArenaPart::inputs, model.head_kind == models::HeadKind::custom ? "inputs" : "token ids",
      BufferSizes(microbatches, model.tokens_bytes()));
  add(ArenaPart::targets, "targets", BufferSizes(microbatches, model.targets_bytes()));
  if (model.packed) {
    add(ArenaPart::row_fields, "positions and documents of rows", BufferSizes(microbatches, model.row_fields_bytes()));
  }
  add(ArenaPart::losses, "losses", BufferSizes(microbatches, model.results_bytes()));
  if (model.label_logits_bytes() > 0) {
    add(ArenaPart::logits, "logits of all rows", BufferSizes(microbatches, model.label_logits_bytes()));
  } else if (!model.head_in_chunks()) {
    add(ArenaPart::logits, "logits of one token", {1, static_cast<Bytes>(model.outputs()) * size_of(model.compute)});
  } else {
    add(ArenaPart::carry, "head in " + std::to_string(model.chunks.count) + " vocabulary chunks",
        BufferSizes(live, model.carry_bytes()), {Phase::head});
  }
  place();
}

std::size_t ArenaPlan::add(std::string what, BufferSizes sizes, const std::vector<Phase>& phases) {
  constexpr const char* kWhat = "device memory";
  Buffers buffers{.sizes = std::move(sizes), .what = std::move(what)};
  for (const BufferSizes::Run& run : buffers.sizes.runs()) {
    const Bytes padded = checked_add(run.size, kAlignment - 1, kWhat) / kAlignment * kAlignment;
    buffers.total = checked_add(buffers.total, checked_multiply(run.count, padded, kWhat), kWhat);
  }
  compiler::memory::StreamTensor tensor{.name = buffers.what, .size = buffers.total, .lifelong = phases.empty()};
  for (const Phase phase : phases) tensor.consumers.push_back(static_cast<Index>(phase));
  if (!phases.empty()) {
    tensor.producer = tensor.consumers.front();
    tensor.consumers.erase(tensor.consumers.begin());
  }
  program_.tensors.push_back(std::move(tensor));
  buffers_.push_back(std::move(buffers));
  return buffers_.size() - 1;
}

void ArenaPlan::add(ArenaPart part, std::string what, BufferSizes sizes, const std::vector<Phase>& phases) {
  of_part_[static_cast<std::size_t>(part)] = add(std::move(what), std::move(sizes), phases);
}

void ArenaPlan::add_weights(const models::Model& model, const ExecutionPlan& plan) {
  if (plan.execution == Execution::resident) {
    BufferSizes wires;
    for (const Bytes wire : layer_sizes(model, model.compute).list()) wires.add(1, plan.slices(wire).room());
    add(ArenaPart::weights, "weights of all layers", wires);
    return add(ArenaPart::accumulators, "gradients of all layers (fp32)", gradient_sizes(model, DType::f32));
  }
  const Bytes largest = static_cast<Bytes>(model.device_layout().largest_layer()) * size_of(model.compute);
  add(ArenaPart::weights, "weight slots",
      BufferSizes(static_cast<std::size_t>(plan.prefetch) + 1, plan.slices(largest).room()));
  BufferSizes staying;
  for (int block = 1; block <= model.blocks(); ++block) {
    if (plan.placement(block).weights_stay) staying.add(1, plan.slices(model.wire_bytes(model.block(block))).room());
  }
  if (!staying.runs().empty()) add(ArenaPart::own_weights, "weights of blocks that stay", staying);
  const Bytes gradients = static_cast<Bytes>(model.device_layout().largest_gradient());
  add(ArenaPart::accumulators, "gradient accumulators (fp32)",
      BufferSizes(static_cast<std::size_t>(plan.accumulators()), gradients * size_of(DType::f32)),
      {Phase::head, Phase::backward, Phase::embedding});
}

void ArenaPlan::add_gradients(const models::Model& model, const ExecutionPlan& plan) {
  const transfer::GradientSlices largest = plan.gradient_slices(model.device_layout().largest_gradient());
  Bytes slot = transfer::drained_bytes(largest.bytes());
  if (plan.sums) slot = std::max(slot, largest.room());
  add(ArenaPart::drain, "gradients on their way out", BufferSizes(kDrainSlots, slot));
  if (!plan.sums) return;
  add(ArenaPart::exchanged, "gradients from all devices", {1, largest.room()});
  add(ArenaPart::sums, "their sums (fp32)", {1, largest.sums()});
}

// The head's input is with those that are rebuilt, or else with those that leave, if any does.
void ArenaPlan::add_stash(const models::Model& model, const ExecutionPlan& plan) {
  const Bytes activation = model.activation_bytes();
  const auto live = static_cast<std::size_t>(plan.live_microbatches());
  if (model.rebuilds()) {
    Bytes largest = 0;
    for (int layer = model.first_rebuilt; layer <= model.head(); ++layer) {
      largest = std::max(largest, model.activation_bytes(layer));
    }
    add(ArenaPart::rebuilt, "streams between layers", BufferSizes(live + 1, largest),
        {Phase::forward, Phase::head, Phase::backward, Phase::embedding});
  }
  const bool leaves = plan.stashed(StashPlace::host) > 0;
  if (plan.stashed(StashPlace::device) > 0) {
    BufferSizes sizes = input_sizes(model, plan, StashPlace::device);
    if (!leaves && !model.rebuilds()) sizes.add(live, activation);
    add(ArenaPart::stash, "stash (layer inputs)", sizes, {Phase::forward, Phase::head, Phase::backward});
  }
  if (!leaves) return;
  add(ArenaPart::activations, "layer inputs on their way to the stash", BufferSizes(live + 1, activation),
      {Phase::forward, Phase::store, Phase::head});
  add(ArenaPart::fetch, "layer inputs, back from the stash",
      BufferSizes(static_cast<std::size_t>(plan.prefetch) + 1, activation), {Phase::fetch, Phase::backward});
}

// Every block with a stash on the host fetches an item, be it empty, so the blocks' backward pass begins when all saved
// values have left.
void ArenaPlan::add_saved(const models::Model& model, const ExecutionPlan& plan) {
  const BufferSizes stay = saved_sizes(model, plan, StashPlace::device);
  if (stay.largest() > 0) {
    add(ArenaPart::saved, "values saved for the backward visits", stay, {Phase::forward, Phase::head, Phase::backward});
  }
  Bytes leaves = 0;  // of a block without a backward visit, too
  for (int block = 1; block <= model.blocks(); ++block) {
    if (plan.placement(block).stash == StashPlace::host)
      leaves = std::max(leaves, model.saved_bytes(model.block(block)));
  }
  if (leaves == 0) return;
  add(ArenaPart::saved_out, "saved values on their way to the stash", BufferSizes(kSavedSlots, leaves),
      {Phase::forward, Phase::store_saved});
  add(ArenaPart::saved_fetch, "saved values, back from the stash",
      BufferSizes(static_cast<std::size_t>(plan.prefetch) + 1, leaves), {Phase::fetch_saved, Phase::backward});
}

void ArenaPlan::place() {
  const compiler::memory::Problem problem = compiler::memory::lower(program_);
  const compiler::memory::Plan plan = compiler::memory::plan(problem);
  const std::string wrong = compiler::memory::validate(problem, plan);
  if (!wrong.empty()) throw Error("arena: the plan is wrong: " + wrong);
  for (std::size_t i = 0; i < buffers_.size(); ++i) buffers_[i].begin = plan.offsets[i];
  bytes_ = align_up(plan.footprint, kAlignment);
}

Bytes ArenaPlan::bytes_apart() const {
  Bytes sum = 0, scratch = 0, largest = 0;
  for (const Buffers& buffers : buffers_) sum += buffers.total;
  for (const auto& [phase, tensor] : scratch_of_) {
    scratch += buffers_[tensor].total;
    largest = std::max(largest, buffers_[tensor].total);
  }
  return sum - scratch + largest;
}

std::vector<device::BufferView> ArenaPlan::views(ArenaPart part, device::BufferView arena) const {
  std::vector<device::BufferView> views;
  const std::size_t tensor = of_part_[static_cast<std::size_t>(part)];
  if (tensor == kNoTensor) return views;
  const Buffers& buffers = buffers_[tensor];
  Bytes begin = buffers.begin;
  for (const Bytes size : buffers.sizes.list()) {
    views.push_back(arena.slice(begin, size));
    begin += align_up(size, kAlignment);
  }
  return views;
}

device::BufferView ArenaPlan::scratch(Phase phase, device::BufferView arena) const {
  const Buffers& buffers = buffers_[scratch_of_.at(phase)];
  return arena.slice(buffers.begin, buffers.sizes.runs().front().size);
}

std::vector<ContractLine> ArenaPlan::lines() const {
  std::vector<std::size_t> order(buffers_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const bool always_a = program_.tensors[a].lifelong, always_b = program_.tensors[b].lifelong;
    return always_a != always_b ? always_a : buffers_[a].total > buffers_[b].total;
  });
  std::set<Bytes> edges, taken;  // where tensors begin or end, which cuts the arena into pieces; pieces, by begin
  for (const Buffers& buffers : buffers_) edges.insert({buffers.begin, buffers.begin + buffers.total});
  std::vector<ContractLine> lines(buffers_.size());
  Bytes covered = 0;
  for (const std::size_t i : order) {
    const Buffers& buffers = buffers_[i];
    Bytes fresh = 0;  // of it, in pieces that no tensor before it has
    for (auto edge = edges.find(buffers.begin); *edge < buffers.begin + buffers.total; ++edge) {
      if (taken.insert(*edge).second) fresh += *std::next(edge) - *edge;
    }
    covered += fresh;
    if (buffers.total == 0) continue;
    lines[i] = {buffers.what, fresh};
    lines[i].what += times(buffers.sizes);
    if (fresh < buffers.total) lines[i].what += ", sharing " + format_bytes(buffers.total - fresh);
  }
  std::erase_if(lines, [](const ContractLine& line) { return line.what.empty(); });
  if (covered < bytes_) lines.push_back({"gaps between them", bytes_ - covered});
  return lines;
}

ArenaPlan::Scratch scratch_of(const models::Model& model, std::span<const std::unique_ptr<Programs>> programs,
                              Blocks blocks) {
  ArenaPlan::Scratch needed = {{Phase::forward, 0}, {Phase::head, 0}, {Phase::backward, 0}, {Phase::embedding, 0}};
  for (int layer = 0; layer < model.layers(); ++layer) {
    Bytes& up = needed[phase_of(model, layer, /*backward=*/false)];
    Bytes& down = needed[phase_of(model, layer, /*backward=*/true)];
    for (const std::unique_ptr<Programs>& of_device : programs) {
      const LayerPrograms& of_layer = of_device->of(layer);
      down = std::max(down, Programs::scratch_bytes(of_layer.drain));
      if (blocks == Blocks::without && model.is_block(layer)) continue;
      up = std::max({up, Programs::scratch_bytes(of_layer.forward), Programs::scratch_bytes(of_layer.logits)});
      down = std::max(down, Programs::scratch_bytes(of_layer.backward));
    }
  }
  return needed;
}

HostStaging host_staging(const models::Model& model, const ExecutionPlan& plan) {
  const auto sum = [](const BufferSizes& sizes, const char* what) {
    Bytes all = 0;
    for (const BufferSizes::Run& run : sizes.runs()) {
      all = checked_add(all, checked_multiply(run.count, run.size, what), what);
    }
    return all;
  };
  HostStaging staging;
  staging.stash = sum(input_sizes(model, plan, StashPlace::host), "stash");
  staging.saved = sum(saved_sizes(model, plan, StashPlace::host), "saved values");
  const auto microbatches = static_cast<Bytes>(plan.microbatches);
  staging.batch = microbatches * (model.tokens_bytes() + model.targets_bytes() + model.row_fields_bytes() +
                                  model.results_bytes() + model.label_logits_bytes()) +
                  static_cast<Bytes>(std::max(model.outputs(), model.hidden)) * size_of(model.compute);
  staging.squares = transfer::kDrainCopies * size_of(DType::f64);
  return staging;
}

namespace {

template <typename SizeOfBlock>
BufferSizes item_sizes(const models::Model& model, const ExecutionPlan& plan, StashPlace place,
                       const SizeOfBlock& size) {
  BufferSizes sizes;
  for (int block = 1; block <= model.blocks(); ++block) {
    // Where blocks are exchanged, another one may stand there.
    const bool leaves_for_good =
        place == StashPlace::host && model.exchange.most == 0 && !model.visited_again(model.block(block));
    const Bytes its = plan.placement(block).stash == place && !leaves_for_good ? size(block) : 0;
    sizes.add(static_cast<std::size_t>(plan.live_microbatches()), its);
  }
  return sizes;
}

}  // namespace

BufferSizes layer_sizes(const models::Model& model, DType dtype) {
  BufferSizes sizes;
  for (int layer = 0; layer < model.layers(); ++layer) sizes.add(1, model.layer_bytes(layer, dtype));
  return sizes;
}

BufferSizes gradient_sizes(const models::Model& model, DType dtype) {
  BufferSizes sizes;
  for (int layer = 0; layer < model.layers(); ++layer) sizes.add(1, model.gradient_bytes(layer, dtype));
  return sizes;
}

std::vector<transfer::GradientSlices> gradient_slices(const models::Model& model, const ExecutionPlan& plan) {
  std::vector<transfer::GradientSlices> slices;
  for (LayerIndex layer = 0; layer < model.layers(); ++layer) {
    slices.push_back(plan.gradient_slices(model.device_layout().gradient_elements(layer)));
  }
  return slices;
}

BufferSizes input_sizes(const models::Model& model, const ExecutionPlan& plan, StashPlace place) {
  const bool exchanges = model.exchange.most > 0;  // then a block of any size may stand anywhere
  return item_sizes(model, plan, place, [&](int block) {
    return exchanges ? model.activation_bytes() : model.activation_bytes(model.block(block));
  });
}

BufferSizes saved_sizes(const models::Model& model, const ExecutionPlan& plan, StashPlace place) {
  Bytes largest = 0;
  for (int block = 1; block <= model.blocks() && model.exchange.most > 0; ++block) {
    largest = std::max(largest, model.saved_bytes(model.block(block)));
  }
  return item_sizes(model, plan, place,
                    [&](int block) { return std::max(largest, model.saved_bytes(model.block(block))); });
}

}  // namespace l2l::runtime

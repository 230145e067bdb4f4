#include "runtime/device_side.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/fault_point.h"

namespace l2l::runtime {
namespace {

using device::BufferView;
using device::WaitReason;

std::vector<bool> stays_on_device(const ExecutionPlan& plan) {
  std::vector<bool> stays;
  for (const BlockPlacement& placement : plan.placements) stays.push_back(placement.stash == StashPlace::device);
  return stays;
}

// Where a stash keeps its items.
struct StashParts {
  ArenaPart stay, out, back;   // items that stay on the device, those that leave, and those that come back
  std::vector<Bytes> on_host;  // size of each item in host memory, 0 where it stays: input_sizes(), saved_sizes()
  const char* name;
};

// On the device alone where nothing leaves, on the host alone where nothing stays, else split between them.
std::unique_ptr<transfer::Stash> make_stash(const RunPlan& plan, const StashParts& parts, BufferView arena,
                                            transfer::Link& link, PinnedMemory& pinned, Failure& failure) {
  const int first = plan.model.block(1), live = plan.execution.live_microbatches();
  std::vector<BufferView> stay = plan.arena->views(parts.stay, arena), out = plan.arena->views(parts.out, arena),
                          back = plan.arena->views(parts.back, arena);
  stay.resize(std::max(stay.size(), parts.on_host.size()));  // where nothing is saved, every item is empty
  std::unique_ptr<transfer::Stash> device = transfer::make_device_stash(std::move(stay), first, live);
  if (out.empty()) return device;
  std::unique_ptr<transfer::Stash> host =
      transfer::make_host_stash(link, std::move(out), std::move(back), pinned.pieces(parts.on_host, parts.name), first,
                                live, parts.name, failure);
  if (plan.execution.stashed(StashPlace::device) == 0) return host;
  return transfer::make_split_stash(std::move(device), std::move(host), stays_on_device(plan.execution), first, live);
}

std::unique_ptr<transfer::Stash> make_input_stash(const RunPlan& plan, BufferView arena, transfer::Link& link,
                                                  PinnedMemory& pinned, Failure& failure) {
  const auto kept = [&] {
    return make_stash(plan,
                      {ArenaPart::stash, ArenaPart::activations, ArenaPart::fetch,
                       input_sizes(plan.model, plan.execution, StashPlace::host).list(), "stash"},
                      arena, link, pinned, failure);
  };
  if (!plan.model.rebuilds()) return kept();
  std::unique_ptr<transfer::Stash> rebuilt =
      transfer::make_rotating_stash(plan.arena->views(ArenaPart::rebuilt, arena), plan.execution.live_microbatches());
  if (plan.model.keeps_no_input()) return rebuilt;
  return transfer::make_stash_below(kept(), std::move(rebuilt), plan.model.first_rebuilt);
}

std::unique_ptr<transfer::Stash> make_saved_stash(const RunPlan& plan, BufferView arena, transfer::Link& link,
                                                  PinnedMemory& pinned, Failure& failure) {
  return make_stash(plan,
                    {ArenaPart::saved, ArenaPart::saved_out, ArenaPart::saved_fetch,
                     saved_sizes(plan.model, plan.execution, StashPlace::host).list(), "saved"},
                    arena, link, pinned, failure);
}

// By layer: memory for weights that stay there from the forward to the backward pass; else empty.
std::vector<BufferView> own_weights(const RunPlan& plan, BufferView arena) {
  std::vector<BufferView> own(static_cast<std::size_t>(plan.model.layers()));
  const std::vector<BufferView> views = plan.arena->views(ArenaPart::own_weights, arena);
  auto next = views.begin();
  for (int block = 1; block <= plan.model.blocks() && !views.empty(); ++block) {
    if (!plan.execution.placement(block).weights_stay) continue;
    own[static_cast<std::size_t>(plan.model.block(block))] = fault_point("weights.share_slot") ? views[0] : *next++;
  }
  return own;
}

// For each length of sequences.
std::vector<ModelPrograms> models_of(const RunPlan& plan, int index) {
  const auto device = static_cast<std::size_t>(index);
  std::vector<ModelPrograms> models;
  for (std::size_t i = 0; i < plan.shorter.size(); ++i) {
    models.push_back({&plan.shorter[i], plan.shorter_programs[i][device].get()});
  }
  models.push_back({&plan.model_of(index), plan.programs[device].get()});
  return models;
}

transfer::LayerShares shares_of(const RunPlan& plan, int index) {
  const models::Model& model = plan.model_of(index);
  transfer::LayerShares shares{model.shard.index, size_of(model.compute), size_of(plan.execution.gradients)};
  for (LayerIndex layer = 0; model.shares && layer < model.layers(); ++layer) {
    shares.blocks.push_back(shared_blocks(*model.shares, model.layout, layer));
  }
  return shares;
}

device::Device& device_of(const RunPlan& plan, int index) { return *plan.devices[static_cast<std::size_t>(index)]; }

}  // namespace

std::byte* PinnedMemory::allocate(Bytes size, std::string_view purpose) {
  buffers_.push_back(device_.allocate_pinned(size, purpose));
  return buffers_.back()->view().data;
}

std::vector<BufferView> PinnedMemory::pieces(const std::vector<Bytes>& sizes, std::string_view purpose) {
  const Bytes sum = std::accumulate(sizes.begin(), sizes.end(), Bytes{0});
  const BufferView all{allocate(sum, purpose), sum};
  std::vector<BufferView> pieces;
  Bytes begin = 0;
  for (const Bytes size : sizes) {
    pieces.push_back(all.slice(begin, size));
    begin += size;
  }
  return pieces;
}

DeviceSide::DeviceSide(const RunPlan& plan, int index, eps::ParameterStore& store, Failure& failure,
                       transfer::GroupGradients* group)
    : plan_(plan),
      model_(plan.model_of(index)),
      shares_(shares_of(plan, index)),
      pinned_(device_of(plan, index)),
      arena_(device_of(plan, index).allocate(plan.arena->bytes(), "arena")),
      link_(device_of(plan, index), index, plan.execution.tensor),
      runner_(std::make_unique<LayerRunner>(link_, models_of(plan, index), *plan.arena, arena_->view(),
                                            plan.options.run.seed,
                                            plan.execution.first_microbatch(link_.contributor()))),
      stash_(make_input_stash(plan, arena_->view(), link_, pinned_, failure)),
      saved_(make_saved_stash(plan, arena_->view(), link_, pinned_, failure)) {
  const BufferView arena = arena_->view();
  const ArenaPlan& parts = *plan.arena;
  weights_ =
      std::make_unique<transfer::WeightStream>(link_, store, parts.views(ArenaPart::weights, arena),
                                               own_weights(plan, arena), layer_sizes(model_, model_.compute).list(),
                                               failure, plan.peers.weights.get(), model_.shares ? &shares_ : nullptr);
  const HostStaging host = host_staging(model_, plan.execution);
  const BufferView squares{pinned_.allocate(host.squares, "norms of gradients"), host.squares};
  gradients_ = std::make_unique<transfer::GradientDrain>(
      link_, store, parts.views(ArenaPart::drain, arena), squares, gradient_slices(model_, plan.execution), failure,
      device_sums(), transfer::DrainShares{group ? &shares_ : nullptr, group});
  const BufferView staging{pinned_.allocate(host.batch, "batch staging"), host.batch};
  minibatch_ = std::make_unique<MinibatchPart>(link_, *runner_, plan.execution.microbatches,
                                               plan.options.model.sequence, staging);
  executor_ = make_executor();
}

transfer::DeviceSums DeviceSide::device_sums() {
  if (!plan_.execution.sums) return {};
  const auto one = [&](ArenaPart part) { return plan_.arena->views(part, arena_->view()).front(); };
  const auto add = [this](device::Stream& stream, LayerIndex layer, BufferView received, BufferView sums) {
    runner_->sum_over_devices(layer, received, sums, stream);
  };
  return {plan_.peers.gradients.get(), one(ArenaPart::exchanged), one(ArenaPart::sums), add};
}

std::unique_ptr<Executor> DeviceSide::make_executor() {
  const ExecutorResources resources{*runner_,
                                    *weights_,
                                    *stash_,
                                    *saved_,
                                    *gradients_,
                                    plan_.arena->views(ArenaPart::accumulators, arena_->view()),
                                    plan_.arena->views(ArenaPart::input_gradients, arena_->view()),
                                    plan_.execution.microbatches,
                                    plan_.execution.parts};
  return plan_.execution.execution == Execution::relay ? make_relay_executor(resources)
                                                       : make_resident_executor(resources);
}

void DeviceSide::exchange_blocks() {
  weights_->set_layers(layer_sizes(plan_.model, plan_.model.compute).list());
  gradients_->set_layers(gradient_slices(plan_.model, plan_.execution));
  executor_ = make_executor();
}

DeviceSide::~DeviceSide() { link_.quiesce(runner_->compute()); }

void DeviceSide::begin(const Pass& pass) {
  runner_->begin_pass(pass);
  if (first_ != nullptr) minibatch_->take_from(*first_->minibatch_);
  minibatch_->upload();
}

void DeviceSide::train(const Pass& pass) {
  begin(pass);
  executor_->train(pass.step);
  minibatch_->fetch_losses();
}

void DeviceSide::evaluate(const Pass& pass) {
  begin(pass);
  executor_->evaluate(pass.step);
  minibatch_->fetch_logits();
  minibatch_->fetch_losses();
}

void DeviceSide::predict(const Pass& pass, const Rows& rows, const TakeValues& take) {
  begin(pass);
  const models::Model& model = runner_->model();
  const Bytes most = static_cast<Bytes>(std::max(model.outputs(), model.hidden)) * size_of(model.compute);  // room
  std::vector<float> values;
  executor_->predict(pass.step, rows, [&](std::int64_t row, std::int64_t column, BufferView whole) {
    for (Bytes begin = 0; begin < whole.size; begin += most) {
      const BufferView piece = whole.slice(begin, std::min(most, whole.size - begin));
      values.resize(piece.size / size_of(model.compute));
      minibatch_->fetch_values(piece, values);
      if (!rows.hidden && model.logit_softcap > 0) {
        for (float& logit : values) logit = model.logit_softcap * std::tanh(logit / model.logit_softcap);
      }
      take(row, column + static_cast<std::int64_t>(begin / size_of(model.compute)), values);
    }
  });
}

void DeviceSide::start_generation(const GenerationPlan& plan) {
  const BufferView staging{pinned_.allocate(plan.staging_bytes(), "staging of texts"), plan.staging_bytes()};
  generation_ = std::make_unique<Generation>(plan, link_, *weights_, runner_->compute(), staging);
}

Stalls DeviceSide::stalls() const {
  const device::Stream& compute = runner_->compute();
  return {1e3 * compute.stalled_seconds(WaitReason::weights), 1e3 * compute.stalled_seconds(WaitReason::stash),
          1e-6 * static_cast<double>(weights_->update_stall().count())};
}

}  // namespace l2l::runtime

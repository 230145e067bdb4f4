#include "runtime/engine.h"

namespace l2l::runtime {
namespace {

using device::BufferView;
using device::WaitReason;

std::vector<Bytes> bytes_per_layer(const models::Model& model, DType dtype) {
  std::vector<Bytes> bytes;
  for (const LayerSpec& layer : model.layout.layers) {
    bytes.push_back(static_cast<Bytes>(layer.elements) * size_of(dtype));
  }
  return bytes;
}

std::unique_ptr<transfer::Stash> make_stash(const RunPlan& plan, BufferView arena, transfer::Link& link,
                                            PinnedMemory& pinned, Failure& failure) {
  const int live = plan.execution.live_microbatches();
  std::vector<BufferView> activations = plan.arena->views(ArenaPart::activations, arena);
  if (plan.execution.stash == StashPlace::device)
    return transfer::make_device_stash(std::move(activations), plan.model.block(1), live);
  const std::size_t items = static_cast<std::size_t>(plan.model.blocks()) * static_cast<std::size_t>(live);
  return transfer::make_host_stash(link, std::move(activations), plan.arena->views(ArenaPart::fetch, arena),
                                   pinned.pieces(plan.model.activation_bytes(), items, "stash"), plan.model.block(1),
                                   live, failure);
}

}  // namespace

std::byte* PinnedMemory::allocate(Bytes size, std::string_view purpose) {
  buffers_.push_back(device_.allocate_pinned(size, purpose));
  return buffers_.back()->view().data;
}

std::vector<BufferView> PinnedMemory::pieces(Bytes size, std::size_t count, std::string_view purpose) {
  const BufferView all{allocate(size * count, purpose), size * count};
  std::vector<BufferView> pieces;
  for (std::size_t i = 0; i < count; ++i) pieces.push_back(all.slice(i * size, size));
  return pieces;
}

Engine::Engine(const RunPlan& plan, Trace* trace)
    : plan_(plan),
      scaler_(plan.scaler),
      trace_(trace),
      step_track_(trace != nullptr ? trace->add_track("steps") : 0),
      pinned_(*plan.device),
      arena_(plan.device->allocate(plan.arena->bytes(), "arena")),
      link_(*plan.device),
      store_(std::make_unique<eps::ParameterStore>(plan.model.layout, plan.store, pinned_, failure_, trace)),
      runner_(std::make_unique<LayerRunner>(*plan.device, plan.model, *plan.programs, *plan.arena, arena_->view(),
                                            plan.options.run.seed)),
      stash_(make_stash(plan, arena_->view(), link_, pinned_, failure_)) {
  const BufferView arena = arena_->view();
  const ArenaPlan& parts = *plan.arena;
  weights_ = std::make_unique<transfer::WeightStream>(link_, *store_, parts.views(ArenaPart::weights, arena),
                                                      bytes_per_layer(plan.model, plan.model.compute), failure_);
  const HostStaging host = host_staging(plan.model, plan.execution);
  const BufferView squares{pinned_.allocate(host.squares, "norms of gradients"), host.squares};
  gradients_ =
      std::make_unique<transfer::GradientDrain>(link_, *store_, parts.views(ArenaPart::drain, arena), squares,
                                                bytes_per_layer(plan.model, plan.execution.gradients), failure_);
  const Bytes staging = host.batch;
  minibatch_ = std::make_unique<Minibatch>(link_, *runner_, plan.execution.microbatches,
                                           BufferView{pinned_.allocate(staging, "batch staging"), staging});
  Orchestra orchestra{*runner_,
                      *weights_,
                      *stash_,
                      *gradients_,
                      parts.views(ArenaPart::accumulators, arena),
                      parts.views(ArenaPart::input_gradients, arena),
                      plan.execution.microbatches};
  conductor_ = plan.execution.execution == Execution::relay ? make_relay(std::move(orchestra))
                                                            : make_resident(std::move(orchestra));
}

// Whatever state a failure left behind: wake every thread, then let the compute stream run dry before what it uses
// goes.
Engine::~Engine() {
  failure_.fail(std::make_exception_ptr(Error("the run has ended")));
  link_.quiesce(runner_->compute());
}

template <typename Body>
auto Engine::guarded(Body body) {
  try {
    return body();
  } catch (...) {
    failure_.fail(std::current_exception());
  }
  failure_.rethrow();
  throw Error("unreachable");
}

Engine::Result Engine::train(std::uint64_t step, double learning_rate) {
  const Clock::time_point begin = Clock::now();
  return guarded([&] {
    const double scale = scaler_.scale();
    store_->begin_step(step, learning_rate, {scale, scaler_.may_shrink()});
    const float loss_scale = static_cast<float>(scale) / static_cast<float>(minibatch_->predicted());
    runner_->begin_pass({step, loss_scale, /*training=*/true});
    minibatch_->upload();
    conductor_->train(step);
    const double loss_sum = minibatch_->loss_sum();
    const eps::StepVerdict verdict = store_->finish_step();
    scaler_.add_step(verdict.skipped);
    if (trace_ != nullptr) trace_->record(step_track_, "step", begin, Clock::now(), -1, -1);
    return Result{loss_sum, verdict.gradient_norm, scale, verdict.skipped};
  });
}

double Engine::evaluate(std::uint64_t step) {
  return guarded([&] {
    store_->complete_updates();
    runner_->begin_pass({step, 1.0f, /*training=*/false});
    minibatch_->upload();
    conductor_->evaluate(step);
    return minibatch_->loss_sum();
  });
}

void Engine::predict(std::uint64_t step, std::int64_t row, std::span<float> logits) {
  guarded([&] {
    store_->complete_updates();
    runner_->begin_pass({step, 1.0f, /*training=*/false});
    minibatch_->upload();
    conductor_->predict(step, row,
                        [&](std::int64_t first_token, BufferView part) { minibatch_->take_logits(first_token, part); });
    minibatch_->logits(logits);
  });
}

Stalls Engine::stalls() const {
  const device::Stream& compute = runner_->compute();
  return {1e3 * compute.stalled_seconds(WaitReason::weights), 1e3 * compute.stalled_seconds(WaitReason::stash),
          1e-6 * static_cast<double>(weights_->update_stall().count())};
}

}  // namespace l2l::runtime

#include "runtime/engine.h"

#include <thread>

#include "l2l/errors.h"

namespace l2l::runtime {

using transfer::Traffic;

Engine::Engine(const RunPlan& plan, Trace* trace, const WeightSource* weights, Ranks* ranks)
    : scaler_(plan.scaler),
      trace_(trace),
      drifts_(plan.model.drifts()),
      step_track_(trace != nullptr ? trace->add_track("steps") : 0),
      pinned_(*plan.device),
      ranks_(ranks != nullptr ? *ranks : alone_),
      store_(std::make_unique<eps::ParameterStore>(plan.model.layout, plan.store, pinned_, failure_, trace, weights)),
      relays_(plan.execution.devices(), failure_) {
  if (plan.options.rank != ranks_.place()) throw Error("the plan is one for another rank, or another number of them");
  if (ranks_.several()) {
    peers_.emplace(ranks_.split());
    state_peers_.emplace(ranks_.split());  // before there is a pulse, which waiting for other ranks would hold up
    // All ranks find the same gradient that is not finite, and finish a checkpoint of the steps before it.
    state_ends_ = failure_.on_failure([this] {
      try {
        failure_.rethrow();
      } catch (const NumericError&) {
      } catch (...) {
        state_failure_.fail(std::current_exception());
      }
    });
    state_peers_->watch(&state_failure_);
    const std::chrono::seconds timeout(plan.options.distributed.timeout);
    courier_ = std::make_unique<transfer::Courier>(*store_, *peers_, failure_, timeout, trace);
  }
  std::vector<MinibatchPart*> parts;
  const int tensor = plan.execution.tensor;
  for (int device = 0; device < plan.execution.devices(); ++device) {
    const int contributor = device / tensor;
    const bool leads = device % tensor == 0;
    if (leads && tensor > 1) {
      groups_.push_back(std::make_unique<transfer::GroupGradients>(*store_, contributor, tensor, plan.model.layout,
                                                                   size_of(plan.execution.gradients), failure_));
    }
    sides_.push_back(
        std::make_unique<DeviceSide>(plan, device, *store_, failure_, tensor > 1 ? groups_.back().get() : nullptr));
    if (leads) {
      parts.push_back(&sides_.back()->minibatch());
    } else {
      sides_.back()->follow(*sides_[static_cast<std::size_t>(contributor * tensor)]);
    }
  }
  minibatch_ = std::make_unique<Minibatch>(std::move(parts), ranks_);
  // Both at once: what ends one may wait for the GPU, on which the other's calls still run.
  exchange_abort_ = failure_.on_failure([this, peers = plan.peers] {
    for (const auto& group : peers.tensor) group->abort(failure_.error());
    std::jthread other;
    if (peers.weights && peers.gradients) other = std::jthread([&] { peers.weights->abort(); });
    if (peers.weights && !peers.gradients) peers.weights->abort();
    if (peers.gradients) peers.gradients->abort();
  });
  ranks_.watch(&failure_);
}

// Wakes every thread, also after a failure. Without one, ranks end together, with what they still exchange.
Engine::~Engine() {
  try {
    if (courier_ && std::uncaught_exceptions() == exceptions_) {
      store_->complete_updates();
      courier_.reset();
    }
  } catch (const std::exception&) {  // the run has failed
  }
  ranks_.watch(nullptr);
  if (!failure_.failed()) exchange_abort_.reset();  // other runs of the same devices may follow
  failure_.fail(std::make_exception_ptr(Error("the run has ended")));
  for (const auto& side : sides_) side->stop();  // devices may still read each other's memory
}

template <typename Body>
auto Engine::guarded(Body body) {
  try {
    return body();
  } catch (const NumericError& error) {
    if (error.nothing_changed()) throw;
    failure_.fail(std::current_exception());
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
    const std::int64_t predicted = minibatch_->predicted(), rows = minibatch_->rows();
    const float loss_scale = static_cast<float>(scale) / static_cast<float>(predicted);
    const Pass pass{step, loss_scale, /*training=*/true, dropout_masks_};
    relays_.run([&](int device) { sides_[static_cast<std::size_t>(device)]->train(pass); });
    const eps::StepVerdict verdict = store_->finish_step();
    scaler_.add_step(verdict.skipped);
    if (trace_ != nullptr) trace_->record(step_track_, "step", begin, Clock::now(), -1, -1);
    Result result{minibatch_->loss_sum(), predicted, rows, verdict.gradient_norm, scale, verdict.skipped};
    if (drifts_) result.drift = minibatch_->drift();
    return result;
  });
}

double Engine::evaluate(std::uint64_t step) {
  return guarded([&] {
    store_->complete_updates();
    const Pass pass{step, 1.0f, /*training=*/false};
    relays_.run([&](int device) { sides_[static_cast<std::size_t>(device)]->evaluate(pass); });
    return minibatch_->loss_sum();
  });
}

void Engine::predict(std::uint64_t step, const Rows& rows, const TakeValues& take) {
  guarded([&] {
    store_->complete_updates();
    sides_[0]->predict({step, 1.0f, /*training=*/false}, rows, take);
  });
}

void Engine::start_generation(const GenerationPlan& plan) {
  guarded([&] { sides_[0]->start_generation(plan); });
  generation_plan_ = &plan;
}

void Engine::run_texts(std::uint64_t step, std::span<const TextTokens> texts, const TakeTextLogits& take) {
  guarded([&] {
    store_->complete_updates();
    sides_[0]->generation().run_texts(step, texts, take);
  });
}

void Engine::run_rows(std::uint64_t step, std::span<const NextToken> rows, const TakeTextLogits& take) {
  guarded([&] {
    store_->complete_updates();
    sides_[0]->generation().run_rows(step, rows, take);
  });
}

void Engine::exchange_blocks(const models::Model& model) {
  guarded([&] {
    store_->set_layers(model.layout.layers);
    for (const auto& side : sides_) side->exchange_blocks();
  });
}

LinkCounters Engine::link_counters() const {
  LinkCounters sum;
  for (const auto& side : sides_) {
    const transfer::Link& link = side->link();
    sum.weights_h2d += link.h2d(Traffic::weights);
    sum.gradients_d2h += link.d2h(Traffic::gradients);
    sum.stash_h2d += link.h2d(Traffic::stash);
    sum.stash_d2h += link.d2h(Traffic::stash);
    sum.batch_h2d += link.h2d(Traffic::batch);
    sum.results_d2h += link.d2h(Traffic::results);
    sum.weights_gathered += link.gathered();
    sum.gradients_exchanged += link.exchanged();
    sum.rows_exchanged += link.rows();
  }
  return sum;
}

Stalls Engine::stalls() const {
  Stalls mean;
  const auto devices = static_cast<double>(sides_.size());
  for (const auto& side : sides_) {
    const Stalls stalls = side->stalls();
    mean.weights_ms += stalls.weights_ms / devices;
    mean.stash_ms += stalls.stash_ms / devices;
    mean.update_ms += stalls.update_ms / devices;
  }
  return mean;
}

}  // namespace l2l::runtime

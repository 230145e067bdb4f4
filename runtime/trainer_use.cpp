// Trainer: validation, predictions, and texts that are continued.
#include <exception>

#include "core/activity.h"
#include "core/error_place.h"
#include "core/scoped_flag.h"
#include "runtime/data/source_samples.h"
#include "runtime/generator.h"
#include "runtime/own_metrics.h"
#include "runtime/plan/memory_contract.h"
#include "runtime/task_metrics.h"
#include "runtime/trainer_implementation.h"
#include "runtime/tuning/kept_kernels.h"

namespace l2l {

std::optional<double> Trainer::validation_loss(const std::function<bool()>& stop) {
  const std::optional<Evaluation> evaluation = evaluate(stop);
  return evaluation ? std::optional(evaluation->loss) : std::nullopt;
}

static void check_take(const char* function, bool given) {
  if (!given) throw BadInput(std::string(function) + "(): take is an empty function");
}

// Of at most `samples` samples: the rest of a last minibatch is none.
static void add_outputs(runtime::Minibatch& minibatch, std::uint64_t samples, runtime::OwnMetrics& metrics) {
  std::uint64_t sample = 0;
  minibatch.for_each_output([&](std::span<const float> output, std::span<const std::int32_t> targets) {
    if (sample < samples) metrics.add(output, targets);
    ++sample;
  });
}

std::optional<Evaluation> Trainer::Implementation::evaluate(const runtime::Samples& samples,
                                                            const std::function<bool()>& stop) {
  Evaluation evaluation;
  const models::HeadKind head = plan.model.head_kind;
  runtime::TaskMetrics task(head, plan.model.labels, plan.options.model.label_names);
  const auto add = [&](std::span<const float> logits, std::int32_t target, bool begins) {
    task.add(logits, target, begins);
  };
  runtime::OwnMetrics own(plan.options.model);
  const auto asks_to_stop = [&] {
    const ScopedFlag scope(handing_out);
    return stop && stop();
  };
  double sum = 0;
  for (std::uint64_t window = 0; window < samples.windows();) {
    if (ranks.any(asks_to_stop())) return std::nullopt;
    runtime::Minibatch& minibatch = running().minibatch();
    const Watchdog::Watch watch(watchdog.get());
    reader->fill(minibatch, samples, runtime::DrawnFor::validation, window);
    const std::uint64_t left = samples.windows() - window;
    window += samples_per_step();
    evaluation.tokens += minibatch.predicted();
    sum += running().evaluate(step);
    if (!own.empty()) {
      const ScopedFlag scope(handing_out);
      add_outputs(minibatch, left, own);
    }
    if (head != models::HeadKind::language && head != models::HeadKind::custom) minibatch.for_each_labelled(add);
  }
  if (evaluation.tokens == 0) throw BadInput("the validation data have no targets: there is nothing to predict");
  evaluation.loss = sum / static_cast<double>(evaluation.tokens);
  const Watchdog::Watch watch(watchdog.get());
  evaluation.metrics = own.empty() ? task.metrics() : own.values();
  return evaluation;
}

void Trainer::predict(const SampleSource& source, const TakeOutputs& take) {
  implementation_->check_no_observer("predict");
  Implementation& self = *implementation_;
  const ThreadActivity listed("relay", 0);
  if (self.plan.model.head_kind != models::HeadKind::custom) {
    throw BadInput("predict(): is for model.architecture = \"custom\"; see logits() and generate()");
  }
  check_take("predict", take != nullptr);
  self.guarded([&] {
    const std::shared_ptr<const SampleSource> borrowed(std::shared_ptr<const SampleSource>(), &source);
    const runtime::SourceSamples samples(borrowed, runtime::dataset_settings(self.plan.options));
    runtime::Minibatch& minibatch = self.running().minibatch();
    runtime::PreparedMinibatch prepared(self.plan.minibatch_shape());
    Workers alone("predict", 1);
    std::uint64_t next = 0;  // to hand out
    for (std::uint64_t first = 0; first < samples.windows(); first += self.samples_per_step()) {
      {
        const Watchdog::Watch watch(self.watchdog.get());  // not of what the program does with the outputs
        prepared.fill([](int) { return 1; },
                      [&](int i, const SampleView& sample) {
                        const ActivitySpan span(Doing::file, "the reading of a sample");
                        samples.validation_window(first + static_cast<std::uint64_t>(i), sample);
                      },
                      alone);
        minibatch.take(prepared);
        static_cast<void>(self.running().evaluate(self.step));
      }
      const ScopedFlag scope(self.handing_out);
      minibatch.for_each_output([&](std::span<const float> values, auto) {
        if (next < samples.windows()) take(next, values);
        ++next;
      });
    }
  });
}

std::optional<Evaluation> Trainer::evaluate(const std::function<bool()>& stop) {
  implementation_->check_no_observer("evaluate");
  implementation_->check_use();
  const ThreadActivity listed("relay", 0);
  Implementation& self = *implementation_;
  if (!self.validation) {
    throw BadInput("data.validation: no validation data; name at least one file", of_key("data.validation"));
  }
  return self.guarded([&]() -> std::optional<Evaluation> {
    std::optional<Evaluation> evaluation = self.evaluate(*self.validation, stop);
    if (!evaluation || !self.mismatched) return evaluation;
    const std::optional<Evaluation> mismatched = self.evaluate(*self.mismatched, stop);
    if (!mismatched) return std::nullopt;
    for (const auto& [name, value] : mismatched->metrics) evaluation->metrics.emplace_back(name + "_mismatched", value);
    return evaluation;
  });
}

std::vector<std::int32_t> Trainer::generate(std::span<const std::int32_t> prompt, const GenerateOptions& options) {
  const std::vector<std::vector<std::int32_t>> prompts{{prompt.begin(), prompt.end()}};
  return generate_all(prompts, options)[0];
}

std::vector<std::vector<std::int32_t>> Trainer::generate_all(const std::vector<std::vector<std::int32_t>>& prompts,
                                                             const GenerateOptions& options, const TakeToken& take) {
  Implementation& self = *implementation_;
  runtime::Engine& engine = self.running();
  const ScopedFlag scope(self.handing_out);
  return runtime::generate(engine, self.plan, self.step, prompts, options, take);
}

void Trainer::reserve_generation(const GenerationShape& shape) {
  Implementation& self = *implementation_;
  if (self.engine || self.generation) throw Error("reserve_generation(): call it once, right after construction");
  runtime::check_continues(self.plan);
  if (!runtime::can_cache(self.plan.model) || self.plan.model.exchange.most > 0) return;
  auto generation = std::make_unique<runtime::GenerationPlan>(self.plan, shape);
  runtime::add_generation(*generation, self.plan, self.contract);
  runtime::check_limits(self.plan, self.contract, runtime::Advice::planned);
  self.generation = std::move(generation);
  runtime::keep_kernels(self.plan.devices, self.plan.options.device.kernels_from);
}

// A pass that take() ended in the middle would end every later one, too, so what it throws waits for the pass.
void Trainer::Implementation::predict_sequence(std::span<const std::int32_t> tokens, bool hidden,
                                               const runtime::TakeValues& take) {
  runtime::Engine& engine = running();
  const ScopedFlag scope(handing_out);
  std::exception_ptr thrown;
  const auto take_safely = [&](std::int64_t row, std::int64_t first, std::span<const float> values) {
    if (thrown) return;
    try {
      take(row, first, values);
    } catch (...) {
      thrown = std::current_exception();
    }
  };
  runtime::predict_sequence(engine, plan, step, tokens, hidden, take_safely);
  if (thrown) std::rethrow_exception(thrown);
}

void Trainer::logits(std::span<const std::int32_t> tokens, const TakeLogits& take) {
  check_take("logits", take != nullptr);
  implementation_->predict_sequence(tokens, /*hidden=*/false, take);
}

void Trainer::hidden_states(std::span<const std::int32_t> tokens, const TakeHidden& take) {
  check_take("hidden_states", take != nullptr);
  implementation_->predict_sequence(tokens, /*hidden=*/true, take);
}

}  // namespace l2l

#include "tools/bench/measured_ranks.h"

#include <algorithm>
#include <thread>

#include "collectives/paced.h"
#include "collectives/threads.h"
#include "runtime/plan_run.h"
#include "runtime/tuning/prediction.h"

namespace l2l::tools {
namespace {

constexpr double kRate = 1e-4;

struct OfRank {
  std::vector<double> step_ms;
  Bytes sent = 0;
  std::exception_ptr thrown;
};

runtime::RunPlan plan_of(const MeasuredSettings& settings, eps::Rank rank, Bytes bandwidth) {
  runtime::Devices devices;
  devices.push_back(std::make_unique<device::PacedDevice>(settings.paced.value()));
  Options options = runtime::without_files(settings.options);
  options.batch.micro_batches *= rank.count;
  options.distributed.bandwidth = 1e-9 * static_cast<double>(bandwidth);
  return runtime::plan_run(options, std::move(devices), nullptr, rank);
}

Bytes sent_by(const runtime::Engine& engine) {
  Bytes sent = 0;
  for (int kind = 0; kind < eps::kExchangeKinds; ++kind) {
    sent += engine.courier()->traffic(static_cast<eps::ExchangeKind>(kind)).sent;
  }
  return sent;
}

void run(const MeasuredSettings& settings, runtime::Ranks& ranks, int warm_up, int steps, OfRank& rank) {
  const runtime::RunPlan plan = plan_of(settings, ranks.place(), 0);
  runtime::Engine engine(plan, nullptr, nullptr, &ranks);
  engine.minibatch().draw(plan.model);
  Bytes before = 0;
  for (int step = 0; step < warm_up + steps; ++step) {
    if (step == warm_up) before = sent_by(engine);
    const Clock::time_point begin = Clock::now();
    engine.train(static_cast<std::uint64_t>(step), kRate);
    if (!settings.overlap) engine.store().complete_updates();
    const std::chrono::duration<double, std::milli> took = Clock::now() - begin;
    if (step >= warm_up) rank.step_ms.push_back(took.count());
  }
  engine.store().complete_updates();
  rank.sent = (sent_by(engine) - before) / static_cast<Bytes>(steps);
}

std::unique_ptr<collectives::Transport> with_bandwidth(std::unique_ptr<collectives::Transport> transport,
                                                       Bytes bandwidth) {
  return bandwidth > 0 ? collectives::paced(std::move(transport), bandwidth) : std::move(transport);
}

// `sent`: by all ranks.
RanksMeasurement summary(std::vector<double> step_ms, Bytes sent, int ranks) {
  std::ranges::nth_element(step_ms, step_ms.begin() + static_cast<std::ptrdiff_t>(step_ms.size() / 2));
  return {step_ms[step_ms.size() / 2], sent / static_cast<Bytes>(ranks)};
}

}  // namespace

RanksMeasurement measure_ranks(const MeasuredSettings& settings, int ranks, Bytes bandwidth, int warm_up, int steps) {
  std::vector<std::unique_ptr<collectives::Transport>> transports = collectives::connected_threads(ranks);
  std::vector<OfRank> each(transports.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < transports.size(); ++i) {
    threads.emplace_back([&, i] {
      runtime::Ranks own(with_bandwidth(std::move(transports[i]), bandwidth));
      try {
        run(settings, own, warm_up, steps, each[i]);
      } catch (...) {
        each[i].thrown = std::current_exception();
        try {
          own.abort("another rank has failed");
        } catch (const std::exception&) {  // as it says
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<double> step_ms;
  Bytes sent = 0;
  for (const OfRank& rank : each) {
    if (rank.thrown) std::rethrow_exception(rank.thrown);
    step_ms.insert(step_ms.end(), rank.step_ms.begin(), rank.step_ms.end());
    sent += rank.sent;
  }
  return summary(std::move(step_ms), sent, ranks);
}

RanksMeasurement measure_ranks(const MeasuredSettings& settings, collectives::Transport& world, Bytes bandwidth,
                               int warm_up, int steps) {
  runtime::Ranks ranks(with_bandwidth(world.split(0), bandwidth));
  OfRank own;
  run(settings, ranks, warm_up, steps, own);
  const std::int64_t sent = ranks.sum(static_cast<std::int64_t>(own.sent));
  return summary(ranks.gather(own.step_ms), static_cast<Bytes>(sent), ranks.count());
}

double predict_ranks(const MeasuredSettings& settings, int ranks, Bytes bandwidth, runtime::Calibration& calibration) {
  const runtime::RunPlan plan = plan_of(settings, {0, ranks}, bandwidth);
  runtime::MeasuringSession session({.seconds = Measuring::kThorough});
  return runtime::predict_step(plan, calibration, &session).step_ms.value();
}

}  // namespace l2l::tools

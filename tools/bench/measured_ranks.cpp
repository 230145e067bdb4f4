#include "tools/bench/measured_ranks.h"

#include <algorithm>
#include <thread>

#include "collectives/paced.h"
#include "collectives/threads.h"
#include "runtime/plan_run.h"

namespace l2l::tools {
namespace {

constexpr double kRate = 1e-4;

struct OfRank {
  std::vector<double> step_ms;
  Bytes sent = 0;
  std::exception_ptr thrown;
};

Bytes sent_by(const runtime::Engine& engine) {
  Bytes sent = 0;
  for (const auto kind : {eps::ExchangeKind::gradients, eps::ExchangeKind::squares, eps::ExchangeKind::wire}) {
    sent += engine.courier()->traffic(kind).sent;
  }
  return sent;
}

void run(const MeasuredSettings& settings, runtime::Ranks& ranks, int warm_up, int steps, OfRank& rank) {
  runtime::Devices devices;
  devices.push_back(std::make_unique<device::PacedDevice>(settings.paced.value()));
  Options options = runtime::without_files(settings.options);
  options.batch.micro_batches *= ranks.count();
  const runtime::RunPlan plan = runtime::plan_run(options, std::move(devices), nullptr, ranks.place());
  runtime::Engine engine(plan, nullptr, nullptr, &ranks);
  engine.minibatch().draw(plan.model);
  Bytes before = 0;
  for (int step = 0; step < warm_up + steps; ++step) {
    if (step == warm_up) before = sent_by(engine);
    const Clock::time_point begin = Clock::now();
    engine.train(static_cast<std::uint64_t>(step), kRate);
    const std::chrono::duration<double, std::milli> took = Clock::now() - begin;
    if (step >= warm_up) rank.step_ms.push_back(took.count());
  }
  engine.store().complete_updates();
  rank.sent = (sent_by(engine) - before) / static_cast<Bytes>(steps);
}

}  // namespace

RanksMeasurement measure_ranks(const MeasuredSettings& settings, int ranks, Bytes bandwidth, int warm_up, int steps) {
  std::vector<std::unique_ptr<collectives::Transport>> transports = collectives::connected_threads(ranks);
  std::vector<OfRank> each(transports.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < transports.size(); ++i) {
    if (bandwidth > 0) transports[i] = collectives::paced(std::move(transports[i]), bandwidth);
    threads.emplace_back([&, i] {
      runtime::Ranks own(std::move(transports[i]));
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
  RanksMeasurement all;
  std::vector<double> step_ms;
  for (const OfRank& rank : each) {
    if (rank.thrown) std::rethrow_exception(rank.thrown);
    step_ms.insert(step_ms.end(), rank.step_ms.begin(), rank.step_ms.end());
    all.sent_bytes += rank.sent / each.size();
  }
  std::ranges::nth_element(step_ms, step_ms.begin() + static_cast<std::ptrdiff_t>(step_ms.size() / 2));
  all.step_ms = step_ms[step_ms.size() / 2];
  return all;
}

}  // namespace l2l::tools

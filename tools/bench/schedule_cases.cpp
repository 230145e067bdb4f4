#include "tools/bench/schedule_cases.h"

#include <algorithm>

namespace l2l::tools {
namespace {

using std::chrono::microseconds;

// Small enough that the parameter server, which is real, takes little beside the table's milliseconds.
Options small_model(int layers, int microbatches) {
  Options options;
  options.precision.compute = "fp32";
  options.model = {.layers = layers, .hidden = 64, .heads = 4, .sequence = 16};
  options.batch = {.micro_batch = 2, .micro_batches = microbatches};
  options.transfer.stash = "host";
  options.eps.threads = 1;
  options.recompute.policy = "full";
  return options;
}

device::PaceTable table(microseconds forward) {
  device::PaceTable table;
  table.launches = {{"block", forward}, {"block backward", 3 * forward}, {"head backward", forward}};
  return table;
}

void set_bandwidth(MeasuredSettings& settings, double bytes_per_ms) {
  const auto bandwidth = static_cast<Bytes>(1e3 * bytes_per_ms);
  settings.options.transfer.link_bandwidth = bandwidth;
  if (settings.paced) settings.paced->h2d_bandwidth = settings.paced->d2h_bandwidth = bandwidth;
}

bool is_block(const VisitReport& visit, int blocks) { return visit.layer > 0 && visit.layer <= blocks; }

}  // namespace

MeasuredSettings paced_overlap_case() { return {small_model(12, 4), table(microseconds(2000)), true}; }

MeasuredSettings paced_inner_loop_case(int microbatches) {
  return {small_model(8, microbatches), table(microseconds(4000)), true};
}

std::vector<Measurement> measure_in_turn(const std::vector<MeasuredSettings>& settings) {
  constexpr int kRounds = 3, kWarmUp = 2, kSteps = 5;
  std::vector<std::vector<Measurement>> rounds(settings.size());
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < settings.size(); ++i) {
      rounds[i].push_back(measure(settings[i], kWarmUp, kSteps));
    }
  }
  std::vector<Measurement> medians;
  for (std::vector<Measurement>& measured : rounds) {
    std::sort(measured.begin(), measured.end(),
              [](const Measurement& a, const Measurement& b) { return a.schedule.step_ms < b.schedule.step_ms; });
    medians.push_back(measured[kRounds / 2]);
  }
  return medians;
}

double compute_ms(const Measurement& free_link) { return free_link.schedule.sum().compute; }

MeasuredSettings with_link_share(MeasuredSettings settings, const Measurement& free_link, double share) {
  set_bandwidth(settings,
                static_cast<double>(free_link.h2d_bytes + free_link.d2h_bytes) / (share * compute_ms(free_link)));
  return settings;
}

MeasuredSettings with_wire_time(MeasuredSettings settings, const ModelSizes& sizes, double ms) {
  set_bandwidth(settings, static_cast<double>(sizes.block_wire) / ms);
  return settings;
}

double CostModel::step_ms(int microbatches) const {
  return (2 * blocks - 1) * wire + blocks * gradients + end_transfers + compute_ms(microbatches) +
         2 * microbatches * blocks * layer_input;
}

double CostModel::compute_ms(int microbatches) const { return microbatches * (blocks * (forward + backward) + ends); }

CostModel cost_model(const Measurement& measured, double bandwidth) {
  const auto ms = [&](Bytes bytes) { return 1e3 * static_cast<double>(bytes) / bandwidth; };
  const ModelSizes& sizes = measured.sizes;
  CostModel model;
  model.blocks = sizes.blocks;
  for (const VisitReport& visit : measured.schedule.visits) {
    const double per_microbatch = visit.times.compute / sizes.microbatches;
    if (!is_block(visit, sizes.blocks)) {
      model.ends += per_microbatch;
    } else {
      (visit.kind == VisitKind::forward ? model.forward : model.backward) += per_microbatch / sizes.blocks;
    }
  }
  model.wire = ms(sizes.block_wire);
  model.gradients = ms(sizes.block_gradients);
  model.end_transfers = ms(sizes.end_wires + sizes.end_gradients);
  model.layer_input = ms(sizes.activation);
  return model;
}

double bandwidth_of(const MeasuredSettings& settings) {
  return static_cast<double>(settings.paced ? settings.paced->h2d_bandwidth : settings.options.transfer.link_bandwidth);
}

}  // namespace l2l::tools

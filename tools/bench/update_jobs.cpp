#include "tools/bench/update_jobs.h"

#include <algorithm>

#include "tools/bench/stream_baseline.h"

namespace l2l::tools {
namespace {

using optimizers::Kernels;
using optimizers::MomentFormat;
using optimizers::Streams;

constexpr float kUpdateLearningRate = 1e-6f;  // weights hardly move, however many updates run

UpdateRun lamb_of(const Kernels& k, const UpdateJob& job) {
  const auto moments = k.lamb_moments_of(job.wire, job.master(), job.moments);
  const auto apply = k.lamb_apply_of(job.master(), job.moments);
  const optimizers::LambConstants constants(
      optimizers::with_bias_correction(optimizers::LambSettings{.learning_rate = kUpdateLearningRate}, 100));
  return [=](const Streams& streams) {
    optimizers::LambLanes lanes;
    moments(streams, constants, lanes);
    apply(streams, constants, static_cast<float>(constants.learning_rate * optimizers::trust_ratio(lanes.sum())));
  };
}

}  // namespace

double UpdateJob::bytes() const {
  const auto moment = [](MomentFormat format) {
    const double scales = format == MomentFormat::int8 ? 2.0 / 32 : 0;
    return static_cast<double>(optimizers::code_bytes(format)) + scales;
  };
  const double state = 4 + moment(moments.first) + (one_moment() ? 0 : moment(moments.second));
  const double wire_beside_master = master() == optimizers::MasterFormat::beside_f16 ? 2 : 0;
  return 2 * state + wire_beside_master + contributions * static_cast<double>(size_of(wire));
}

std::vector<UpdateJob> all_update_jobs(const std::vector<int>& contributions) {
  std::vector<UpdateJob> jobs;
  const auto add = [&](const char* optimizer, DType wire, const char* moments, int count) {
    if (std::find(contributions.begin(), contributions.end(), count) == contributions.end()) return;
    jobs.push_back({optimizer, wire, optimizers::parse_moment_formats(moments), count});
  };
  for (const char* const moments : {"fp32", "bf16_first", "bf16", "int8"}) {
    for (const char* const optimizer : {"adamw", "lamb"}) add(optimizer, DType::bf16, moments, 1);
  }
  for (const char* const moments : {"fp32", "bf16", "int8"}) add("sgd", DType::bf16, moments, 1);
  for (const int count : contributions) {
    if (count == 1) continue;
    for (const char* const moments : {"fp32", "bf16"}) add("adamw", DType::bf16, moments, count);
  }
  for (const DType wire : {DType::f16, DType::f32}) {
    for (const char* const moments : {"fp32", "bf16"}) add("adamw", wire, moments, 1);
  }
  return jobs;
}

UpdateRun update_of(const Kernels& k, const UpdateJob& job) {
  if (job.optimizer == "lamb") return lamb_of(k, job);
  if (job.optimizer == "sgd") {
    const auto kernel = k.sgd_of(job.wire, job.master(), job.moments.first);
    return [=](const Streams& streams) { kernel(streams, {.learning_rate = kUpdateLearningRate}); };
  }
  const auto kernel = k.adamw_of(job.wire, job.master(), job.moments);
  const optimizers::AdamWConstants constants(optimizers::with_bias_correction(
      optimizers::AdamWSettings{.learning_rate = kUpdateLearningRate, .weight_decay = 0.01f}, 100));
  return [=](const Streams& streams) { kernel(streams, constants); };
}

UpdateRun baseline_of(const Kernels& k, const UpdateJob& job) {
  const StreamBaselines& all = stream_baselines(k);
  const std::size_t wire = optimizers::index_of(job.wire);
  return job.one_moment() ? all.one_moment[wire][static_cast<std::size_t>(job.moments.first)]
                          : all.two_moments[wire][optimizers::index_of(job.moments)];
}

}  // namespace l2l::tools

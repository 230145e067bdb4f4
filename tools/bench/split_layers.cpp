// What recomputation and sequence parallelism cost a block of Megatron's 22B and 175B models, split over 8 GPUs, beside
// what Korthikanti et al. measured ("Reducing Activation Recomputation in Large Transformer Models", 2022, Table 4).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <optional>

#include "base/json.h"
#include "device/paced/paced_device.h"
#include "runtime/engine.h"
#include "runtime/plan_run.h"
#include "tools/bench/benches.h"
#include "tools/bench/block_times.h"

namespace l2l::tools {
namespace {

using compiler::remat::Policy;

constexpr int kGpus = 8, kRunBlocks = 6, kRunMicrobatches = 8;

struct ModelCase {
  const char* name;
  std::int64_t hidden, heads, micro_batch;
};
constexpr ModelCase kModels[] = {{"22B", 6144, 64, 4}, {"175B", 12288, 96, 1}};

struct Published {
  double forward_ms, backward_ms;
};
struct RowCase {
  const char* name;
  Attention attention;
  bool whole_rows;  // else sequence parallelism
  Policy policy;
  bool all_again = false;  // what nothing reads is recomputed, too
  std::optional<Published> published_22b = {};
};
const RowCase kRows[] = {
    {"no recomputation", Attention::core, true, Policy::none, false, Published{7.7, 11.9}},
    {"no recomputation, sequence parallel", Attention::core, false, Policy::none, false, Published{7.2, 11.8}},
    {"full, all of the forward pass again", Attention::core, true, Policy::full, true, Published{7.7, 19.5}},
    {"full", Attention::core, true, Policy::full},
    {"selective", Attention::core, true, Policy::selective, false, Published{7.7, 13.2}},
    {"selective, sequence parallel", Attention::core, false, Policy::selective, false, Published{7.2, 13.1}},
    {"fused attention, sequence parallel", Attention::fused, false, Policy::none},
    {"fused attention, sequence parallel, min_cut", Attention::fused, false, Policy::min_cut},
    {"fused attention, sequence parallel, full", Attention::fused, false, Policy::full},
};

models::TransformerShape shape_of(const ModelCase& model, bool whole_rows = false) {
  return {.layers = 1,
          .hidden = model.hidden,
          .heads = model.heads,
          .intermediate = 4 * model.hidden,
          .vocabulary = 51200,
          .sequence = 2048,
          .micro_batch = model.micro_batch,
          .dropout = 0.1f,
          .compute = DType::bf16,
          .shard = {kGpus, 0},
          .whole_rows = whole_rows};
}

BlockTimes times_of(const ModelCase& model, const RowCase& row) {
  const BlockCase block{shape_of(model, row.whole_rows), row.attention, row.all_again ? Policy::none : row.policy};
  BlockTimes times = block_times(block, kA100);
  if (row.all_again) times.backward = times.forward + times.backward;
  return times;
}

// Small enough that the parameter server, which is real, takes little beside the table's milliseconds.
Options small_model(Policy policy) {
  Options options;
  options.model = {.layers = kRunBlocks, .hidden = 64, .heads = kGpus, .sequence = 16, .dropout = 0.1};
  options.batch = {.micro_batch = 2, .micro_batches = kRunMicrobatches};
  options.device.count = options.device.tensor = kGpus;
  options.transfer.stash = "device";
  options.eps.threads = 1;
  options.recompute.policy = name_of(policy);
  options.precision.compute = "fp32";  // as pace_of() has it
  return options;
}

Bytes wire_of_block(const models::TransformerShape& shape) {
  const std::int64_t hidden = shape.hidden;
  return static_cast<Bytes>(12 * hidden * hidden) * size_of(shape.compute);
}

// A small model whose programs take `times`, and whose weights and gradients cross the link in the time of the large
// one's.
device::PaceTable pace_of(const ModelCase& model, const BlockTimes& times) {
  const auto nanoseconds = [](double seconds) { return std::chrono::nanoseconds(std::llround(1e9 * seconds)); };
  models::TransformerShape small = shape_of(model);
  small.hidden = 64;
  small.compute = DType::f32;
  device::PaceTable table;
  table.launches = {{"block", nanoseconds(times.forward.seconds())},
                    {"block backward", nanoseconds(times.backward.seconds())}};
  table.h2d_bandwidth = table.d2h_bandwidth = static_cast<Bytes>(
      kA100.link * static_cast<double>(wire_of_block(small)) / static_cast<double>(wire_of_block(shape_of(model))));
  return table;
}

// A step of the relay on as many paced devices.
double step_ms(const Options& options, const device::PaceTable& table) {
  constexpr int kWarmUp = 1, kSteps = 3;
  runtime::Devices devices;
  for (int i = 0; i < kGpus; ++i) devices.push_back(std::make_shared<device::PacedDevice>(table));
  const runtime::RunPlan plan = runtime::plan_run(runtime::without_files(options), std::move(devices));
  runtime::Engine engine(plan, nullptr);
  engine.minibatch().draw(plan.model);
  std::vector<double> steps;
  Clock::time_point begin = Clock::now();
  for (int step = 0; step < kWarmUp + kSteps; ++step) {
    engine.train(static_cast<std::uint64_t>(step), 1e-4);
    const Clock::time_point end = Clock::now();
    if (step >= kWarmUp) steps.push_back(std::chrono::duration<double, std::milli>(end - begin).count());
    begin = end;
  }
  std::ranges::nth_element(steps, steps.begin() + kSteps / 2);
  return steps[kSteps / 2];
}

nlohmann::ordered_json to_json(const VisitTime& time) {
  return {{"ms", 1e3 * time.seconds()},
          {"products_ms", 1e3 * time.products},
          {"attention_ms", 1e3 * time.attention},
          {"memory_ms", 1e3 * time.memory},
          {"exchanges_ms", 1e3 * time.exchanges}};
}

struct SplitResult {
  const ModelCase& model;
  const RowCase& row;
  BlockTimes times;
  double over_baseline, step_ms, step_over_blocks;
  std::optional<Published> published;
  double published_over_baseline;
};

nlohmann::ordered_json to_json(const SplitResult& result) {
  nlohmann::ordered_json json = {{"model", result.model.name},
                                 {"row", result.row.name},
                                 {"forward", to_json(result.times.forward)},
                                 {"backward", to_json(result.times.backward)},
                                 {"ms", 1e3 * result.times.seconds()},
                                 {"over_baseline", result.over_baseline},
                                 {"step_ms", result.step_ms},
                                 {"step_over_blocks", result.step_over_blocks}};
  if (result.published) {
    json["published"] = {{"forward_ms", result.published->forward_ms},
                         {"backward_ms", result.published->backward_ms},
                         {"over_baseline", result.published_over_baseline}};
  }
  return json;
}

void print(const SplitResult& result) {
  const auto percent = [](double ratio) { return 100 * (ratio - 1); };
  std::printf("%-5s %-43s %6.2f %6.2f %6.2f %+5.0f%% | %7.1f %6.3f |", result.model.name, result.row.name,
              1e3 * result.times.forward.seconds(), 1e3 * result.times.backward.seconds(), 1e3 * result.times.seconds(),
              percent(result.over_baseline), result.step_ms, result.step_over_blocks);
  if (result.published) {
    std::printf(" %5.1f %5.1f %+4.0f%%", result.published->forward_ms, result.published->backward_ms,
                percent(result.published_over_baseline));
  }
  std::printf("\n");
  std::fflush(stdout);
}

SplitResult result_of(const ModelCase& model, const RowCase& row) {
  const double baseline = times_of(model, kRows[0]).seconds();
  const auto sum = [](const Published& times) { return times.forward_ms + times.backward_ms; };
  const BlockTimes times = times_of(model, row);
  const double step = step_ms(small_model(row.policy), pace_of(model, times));
  const bool measured = &model == &kModels[0] && row.published_22b;
  return {model,
          row,
          times,
          times.seconds() / baseline,
          step,
          step / (1e3 * kRunBlocks * kRunMicrobatches * times.seconds()),
          measured ? row.published_22b : std::nullopt,
          measured ? sum(*row.published_22b) / sum(*kRows[0].published_22b) : 0};
}

}  // namespace

int bench_split_layers(bool json) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  if (!json) {
    std::printf(
        "A block split over %d A100, by operations and bytes of its ops; a step of %d such blocks and %d microbatches\n"
        "on paced devices; ms. Published: Korthikanti et al., Table 4.\n",
        kGpus, kRunBlocks, kRunMicrobatches);
    std::printf("%-5s %-43s %6s %6s %6s %6s | %7s %6s | published\n", "", "", "fwd", "bwd", "both", "", "step",
                "/ sum");
  }
  for (const ModelCase& model : kModels) {
    for (const RowCase& row : kRows) {
      const SplitResult result = result_of(model, row);
      rows.push_back(to_json(result));
      if (!json) print(result);
    }
  }
  if (json) std::cout << json_text(rows) << std::endl;
  return kSuccess;
}

}  // namespace l2l::tools

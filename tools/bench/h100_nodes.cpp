#include "tools/bench/h100_nodes.h"

#include <algorithm>

#include "device/paced/paced_device.h"
#include "runtime/plan_run.h"
#include "runtime/tuning/prediction.h"

namespace l2l::tools {
namespace {

// Measured on an H100 SXM with PCIe 5 (docs/benchmarks.md, On a GPU): large products of bf16, kernels that only move
// memory, page-locked copies while the other direction is busy.
constexpr double kProducts = 715e12, kMemory = 3.0e12, kLink = 49e9;
constexpr double kNominalOperations = 1e11, kNominalBytes = 1e10;  // runtime/tuning/piece_estimate.h

void set_rate(runtime::PieceRates& rates, runtime::PieceSort sort, double seconds) {
  rates.learn(runtime::work_of(sort, 1), {.seconds = seconds, .processor = 0});
}

}  // namespace

StepPrediction predict_on_h100s(const Options& options, double updates) {
  runtime::Devices devices;  // for their programs
  for (std::int64_t i = 0; i < options.device.count; ++i) {
    devices.push_back(std::make_shared<device::PacedDevice>(device::PaceTable()));
  }
  const runtime::RunPlan plan = runtime::plan_run(runtime::without_files(options), std::move(devices));
  runtime::MeasuringSession session({.seconds = 0});
  using runtime::PieceSort;
  set_rate(session.rates(), PieceSort::arithmetic, kNominalOperations / kProducts);
  set_rate(session.rates(), PieceSort::memory, kNominalBytes / kMemory);
  set_rate(session.rates(), PieceSort::link, kNominalBytes / kLink);
  set_rate(session.rates(), PieceSort::update, kNominalBytes / updates);
  runtime::Calibration nothing(std::filesystem::path(), "H100");
  return runtime::predict_step(plan, nothing, &session);
}

Options llama(LlamaSize size, std::int64_t sequence, std::int64_t tokens, std::int64_t devices, std::int64_t nodes) {
  constexpr std::int64_t kMicrobatch = 16'384;  // tokens
  Options options;
  options.model.architecture = "llama";
  options.model.layers = size == LlamaSize::b70 ? 80 : 32;
  options.model.hidden = size == LlamaSize::b70 ? 8192 : 4096;
  options.model.heads = size == LlamaSize::b70 ? 64 : 32;
  options.model.kv_heads = size == LlamaSize::b7 ? 32 : 8;
  options.model.intermediate = size == LlamaSize::b7 ? 11'008 : size == LlamaSize::b8 ? 14'336 : 28'672;
  options.model.vocabulary = size == LlamaSize::b7 ? 32'000 : 128'256;
  options.model.sequence = sequence;
  options.model.dropout = 0;
  options.model.tie_embeddings = false;
  const std::int64_t microbatch = std::min(tokens, kMicrobatch);
  options.batch = {.micro_batch = microbatch / sequence, .micro_batches = tokens / microbatch * devices * nodes};
  options.precision.compute = "bf16";
  options.transfer.stash = "host";
  options.recompute.policy = "full";
  options.device.count = devices;
  options.distributed.nodes = nodes;
  return options;
}

}  // namespace l2l::tools

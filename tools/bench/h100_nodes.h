// The step of nodes with H100s that are not at hand, by the model that predicts steps on this machine: pieces take
// their operations and bytes over rates that were measured elsewhere. Nothing runs.
#pragma once

#include "l2l/trainer.h"

namespace l2l::tools {

// What updates stream, in bytes per second. On 16 cores it was measured beside a GPU at work (docs/benchmarks.md, On a
// GPU); of two processors with 8 channels of DDR5-4800 each it is their bandwidth less what PCIe 5 x16 takes of it.
inline constexpr double kUpdatesOf16Cores = 112e9, kUpdatesOfTwoProcessors = 2 * (307e9 - 2 * 49e9);

// `options`: bf16 on the relay, of one node (or of distributed.nodes, with distributed.bandwidth) with device.count
// H100s, each on a PCIe 5 x16 link of its own. No data are read.
StepPrediction predict_on_h100s(const Options& options, double updates);

enum class LlamaSize { b7, b8, b70 };  // Llama-7B; Llama-3.1-8B and 70B
// `tokens` a step of each device, in microbatches of 16,384 at most.
Options llama(LlamaSize size, std::int64_t sequence, std::int64_t tokens, std::int64_t devices, std::int64_t nodes);

}  // namespace l2l::tools

// What a block's two visits take a GPU of a group over which layers are split (device.tensor), for one microbatch: the
// operations and bytes of the ops that its programs consist of, at published rates. Nothing runs.
#pragma once

#include "compiler/remat/policy.h"
#include "models/shape.h"

namespace l2l::tools {

struct GpuRates {
  double products, attention_forward, attention_backward;  // operations per second
  double memory;                                           // bytes per second
  double exchange;                                         // received of its peers while as much is sent
  double link;                                             // to the host, and from it at the same time
};
// Products as measured by others (stas00/ml-engineering, "maximum achievable matmul FLOPS"), attention at the share of
// them that an H100 reaches (docs/benchmarks.md, On a GPU), memory and PCIe 4 at the shares of the data sheet's 2.0
// TB/s and 32 GB/s that it reaches of its own (tools/compare/step_model.py); NVLink as nccl-tests measures it on eight
// A100 (NVIDIA/nccl-tests issue 149: about 200 of the data sheet's 300 GB/s each way).
inline constexpr GpuRates kA100 = {271e12, 189e12, 138e12, 1.8e12, 200e9, 25e9};

// In one op; or in separate ones, whose results are in memory, as in Korthikanti et al.
enum class Attention : std::uint8_t { fused, core };

struct BlockCase {
  models::TransformerShape shape;  // of a split GPT-2, as a device has it; with or without whole_rows
  Attention attention = Attention::fused;
  compiler::remat::Policy policy = compiler::remat::Policy::none;
};

// Seconds, by what bounds the ops: arithmetic of matrix products (core attention's included) and of fused attention,
// memory, exchanges.
struct VisitTime {
  double products = 0, attention = 0, memory = 0, exchanges = 0;
  double seconds() const { return products + attention + memory + exchanges; }
};
inline VisitTime operator+(const VisitTime& a, const VisitTime& b) {
  return {a.products + b.products, a.attention + b.attention, a.memory + b.memory, a.exchanges + b.exchanges};
}
struct BlockTimes {
  VisitTime forward, backward;  // recomputation included
  double seconds() const { return forward.seconds() + backward.seconds(); }
};

BlockTimes block_times(const BlockCase& block, const GpuRates& gpu);

}  // namespace l2l::tools

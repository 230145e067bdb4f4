// The kernels of an update, for each instruction set, chosen at run time. Every set gives the same bits: lanes, order
// of sums, roundings and fused multiply-adds are part of the definition, no operation is approximate.
//
// To drive one over plain arrays (a benchmark, a test):
//
//   flush_denormals_to_zero();                                        // as every worker does
//   const void* gradients[] = {gradient.data()};
//   Streams streams;
//   streams.count = n;  streams.gradients = gradients;  streams.contributions = 1;
//   streams.wire = wire.data();  streams.master = low.data();         // by the master's format: streams.h
//   streams.first = {m.data(), m_scales.data()};  streams.second = {v.data(), v_scales.data()};
//   const Kernels& k = kernels();
//   k.adamw_of(DType::bf16, MasterFormat::split, parse_moment_formats("bf16"))(
//       streams, AdamWConstants(with_bias_correction(settings, count)));
//
// n is any number; arrays may lie anywhere (64-byte alignment is faster; the f16 wire goes past the caches where it is
// 32-byte aligned). A moment has n * code_bytes(format) bytes of codes and scale_bytes(format, n) of scales. A run may
// be cut at multiples of 512 elements without a change of bits (`index` says where it begins). Bytes per element that a
// kernel moves: traffic_bytes(). Kernels are thread-safe on disjoint runs; they neither allocate nor throw.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "optimizers/adamw.h"
#include "optimizers/format.h"
#include "optimizers/lamb.h"
#include "optimizers/sgd.h"
#include "optimizers/streams.h"

namespace l2l::optimizers {

inline constexpr std::size_t kGradientFormats = 3;

// Position of a type of gradients (f32, bf16 or f16) in the tables.
constexpr std::size_t index_of(DType gradient) { return gradient == DType::f32 ? 0 : gradient == DType::bf16 ? 1 : 2; }

// Immutable. Of arrays: [gradient][master][pair of moments], without those that a kernel does not read.
struct Kernels {
  using AdamWKernel = void (*)(const Streams&, const AdamWConstants&);
  using SgdKernel = void (*)(const Streams&, const SgdSettings&);
  // Adds to `lanes`. Does not write the master.
  using LambMomentsKernel = void (*)(const Streams&, const LambConstants&, LambLanes& lanes);
  // step = learning_rate * trust_ratio. Reads no gradient, writes no moment.
  using LambApplyKernel = void (*)(const Streams&, const LambConstants&, float step);
  // Same streams as an update by AdamW, no arithmetic; ruins them. `f16` gradients are as bf16 ones.
  using GhostKernel = void (*)(const Streams&);
  // Adds the squares of the sum of the contributions (without the factor) to sixteen lanes, element i to lane i % 16.
  // Not finite exactly if an element of the sum is not.
  using SquaresKernel = void (*)(const Streams&, double* lanes);
  // All of a run's masters or moments as fp32, and back. Moments are rounded to nearest: what came from the same
  // format comes back unchanged, but for int8. The moment is streams.first or streams.second.
  using LoadMasterKernel = void (*)(const Streams&, float* destination);
  using StoreMasterKernel = void (*)(const Streams&, const float* source);
  using DecodeKernel = void (*)(const MomentStream&, std::size_t count, float* destination);
  using EncodeKernel = void (*)(const MomentStream&, std::size_t count, const float* source);

  const char* name;  // "portable", "avx2" or "avx512"
  AdamWKernel adamw[kGradientFormats][kMasterFormats][kMomentPairs];
  GhostKernel ghost[kGradientFormats][kMasterFormats][kMomentPairs];
  GhostKernel ghost_of_one[kGradientFormats][kMasterFormats][kMomentFormats];  // streams of an update by SGD
  LambMomentsKernel lamb_moments[kGradientFormats][kMasterFormats][kMomentPairs];
  LambApplyKernel lamb_apply[kMasterFormats][kMomentPairs];
  SgdKernel sgd[kGradientFormats][kMasterFormats][kMomentFormats];  // by the first moment's format
  SquaresKernel squares[kGradientFormats];
  LoadMasterKernel load_master[kMasterFormats];
  StoreMasterKernel store_master[kMasterFormats];
  DecodeKernel decode[2][kMomentFormats];  // [first or second moment][format]
  EncodeKernel encode[2][kMomentFormats];

  AdamWKernel adamw_of(DType gradient, MasterFormat master, MomentFormats moments) const {
    return adamw[index_of(gradient)][static_cast<std::size_t>(master)][index_of(moments)];
  }
  GhostKernel ghost_of(DType gradient, MasterFormat master, MomentFormat moment) const {
    return ghost_of_one[index_of(gradient)][static_cast<std::size_t>(master)][static_cast<std::size_t>(moment)];
  }
  GhostKernel ghost_of(DType gradient, MasterFormat master, MomentFormats moments) const {
    return ghost[index_of(gradient)][static_cast<std::size_t>(master)][index_of(moments)];
  }
  LambMomentsKernel lamb_moments_of(DType gradient, MasterFormat master, MomentFormats moments) const {
    return lamb_moments[index_of(gradient)][static_cast<std::size_t>(master)][index_of(moments)];
  }
  LambApplyKernel lamb_apply_of(MasterFormat master, MomentFormats moments) const {
    return lamb_apply[static_cast<std::size_t>(master)][index_of(moments)];
  }
  SgdKernel sgd_of(DType gradient, MasterFormat master, MomentFormat moment) const {
    return sgd[index_of(gradient)][static_cast<std::size_t>(master)][static_cast<std::size_t>(moment)];
  }
};

// The best set that this processor has, or the one that the environment's L2L_INSTRUCTION_SET names (portable, avx2,
// avx512). Throws BadInput naming the choices where that is unknown or not supported. Chosen once.
const Kernels& kernels();
// Every set that this build and this processor have, the best last.
std::vector<const Kernels*> supported_kernels();
// The choice by name; empty: the best. Throws as kernels() does.
const Kernels& kernels_named(std::string_view name);

// Lanes of squares, in ascending order.
double sum_of_lanes(const double* lanes);

// Bytes per parameter that an AdamW update moves to and from memory, scales apart: 2 x state + wire + gradients.
constexpr double traffic_bytes(DType gradient, std::size_t contributions, MasterFormat master, MomentFormats moments) {
  const auto moment = [](MomentFormat format) {
    return static_cast<double>(code_bytes(format)) + (format == MomentFormat::int8 ? 2.0 / 32 : 0);
  };
  const double state = 4 + moment(moments.first) + moment(moments.second);
  return 2 * state + (master == MasterFormat::beside_f16 ? 2 : 0) +
         static_cast<double>(contributions * size_of(gradient));
}

}  // namespace l2l::optimizers

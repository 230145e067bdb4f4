// The kernels of an update, for each instruction set, chosen at run time. Every set gives the same bits: lanes, order
// of sums, roundings and fused multiply-adds are part of the definition, and no operation is approximate.
//
// A kernel runs over plain arrays:
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
// Any number of elements and any alignment will do; 64-byte alignment is faster, and the f16 wire is written past the
// caches where it is 32-byte aligned. A moment of n elements has n * code_bytes(format) bytes of codes and
// scale_bytes(format, n) of scales. A run may be cut at multiples of 512 elements without a change of bits
// (Streams::index says where it begins). Kernels are thread-safe on disjoint runs; they neither allocate nor throw.
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

// The kernels of one instruction set. Immutable. Tables are indexed [gradient][master][pair of moments], without the
// indices of what a kernel does not read.
struct Kernels {
  using AdamWKernel = void (*)(const Streams&, const AdamWConstants&);
  using SgdKernel = void (*)(const Streams&, const SgdSettings&);
  // Adds to `lanes`. Does not write the master.
  using LambMomentsKernel = void (*)(const Streams&, const LambConstants&, LambLanes& lanes);
  // step = learning_rate * trust_ratio. Reads no gradient, writes no moment.
  using LambApplyKernel = void (*)(const Streams&, const LambConstants&, float step);
  // Adds the squares of the sum of the contributions (without the factor) to sixteen lanes, element i to lane i % 16.
  // Not finite exactly if an element of the sum is not.
  using SquaresKernel = void (*)(const Streams&, double* lanes);
  // The sum of the contributions (without the factor) in fp32, which may be one of them.
  using SumKernel = void (*)(const Streams&, float* sums);
  // All masters or one moment of a run as fp32, and back. Moments are rounded to nearest, so that a value read from
  // the same format is written back unchanged, except in int8.
  using LoadMasterKernel = void (*)(const Streams&, float* destination);
  using StoreMasterKernel = void (*)(const Streams&, const float* source);
  using DecodeKernel = void (*)(const MomentStream&, std::size_t count, float* destination);
  using EncodeKernel = void (*)(const MomentStream&, std::size_t count, const float* source);

  const char* name;  // "portable", "avx2", "avx512" or "neon"
  // Null without has_update_kernels().
  AdamWKernel adamw[kGradientFormats][kMasterFormats][kMomentPairs];
  LambMomentsKernel lamb_moments[kGradientFormats][kMasterFormats][kMomentPairs];
  SgdKernel sgd[kGradientFormats][kMasterFormats][kMomentFormats];  // by the format of the first moment

  LambApplyKernel lamb_apply[kMasterFormats][kMomentPairs];
  SquaresKernel squares[kGradientFormats];
  SumKernel sum[kGradientFormats];
  LoadMasterKernel load_master[kMasterFormats];
  StoreMasterKernel store_master[kMasterFormats];
  DecodeKernel decode[2][kMomentFormats];  // [first or second moment][format]
  EncodeKernel encode[2][kMomentFormats];

  // Update kernels by format. Throw Error where there is none (has_update_kernels()).
  AdamWKernel adamw_of(DType gradient, MasterFormat master, MomentFormats moments) const;
  LambMomentsKernel lamb_moments_of(DType gradient, MasterFormat master, MomentFormats moments) const;
  LambApplyKernel lamb_apply_of(MasterFormat master, MomentFormats moments) const;
  SgdKernel sgd_of(DType gradient, MasterFormat master, MomentFormat moment) const;
};

// The best set of this processor, or the one named by the environment variable L2L_INSTRUCTION_SET (portable, avx2,
// avx512, neon). Chosen once. Throws BadInput with the choices where that name is unknown or not supported here.
const Kernels& kernels();
// Every set that this build and this processor have, the best last.
std::vector<const Kernels*> supported_kernels();
// The set called `name`; the best for an empty name. Throws BadInput as kernels() does.
const Kernels& kernels_named(std::string_view name);

// Sum of the sixteen lanes of SquaresKernel, in ascending order.
double sum_of_lanes(const double* lanes);

}  // namespace l2l::optimizers

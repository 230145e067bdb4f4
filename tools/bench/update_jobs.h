// The updates that the benchmark measures, and the kernels that make them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "optimizers/kernels.h"

namespace l2l::tools {

// What a row updates; rows with the same streams share a stream baseline.
struct UpdateJob {
  std::string optimizer;
  DType wire = DType::bf16;
  optimizers::MomentFormats moments;
  int contributions = 1;

  bool one_moment() const { return optimizer == "sgd"; }
  bool same_streams(const UpdateJob& other) const {
    return wire == other.wire && contributions == other.contributions && one_moment() == other.one_moment() &&
           (one_moment() ? moments.first == other.moments.first : moments == other.moments);
  }
  std::string wire_name() const { return wire == DType::f32 ? "fp32" : wire == DType::f16 ? "fp16" : "bf16"; }
  std::string moments_name() const { return std::string(optimizers::name_of(moments)); }
  std::string name() const { return optimizer + " " + wire_name() + " " + moments_name(); }
  optimizers::MasterFormat master() const { return optimizers::master_format(wire); }
  // Per parameter: what an update reads and writes, 2 x state + wire + gradients. LAMB's second pass finds its operands
  // in the cache.
  double bytes() const;
};

// Every optimizer and format over a split master, in an order that keeps equal streams together; then more than one
// contribution; then the other masters. Only those with one of `contributions`.
std::vector<UpdateJob> all_update_jobs(const std::vector<int>& contributions);

// Updates one run of elements; of LAMB, a whole tensor.
using UpdateRun = std::function<void(const optimizers::Streams&)>;
UpdateRun update_of(const optimizers::Kernels& kernels, const UpdateJob& job);
// The stream baseline of the same streams, for the same instruction set (stream_baseline.h).
UpdateRun baseline_of(const optimizers::Kernels& kernels, const UpdateJob& job);

}  // namespace l2l::tools

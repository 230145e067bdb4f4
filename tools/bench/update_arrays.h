// Plain arrays of every state format, for one set of parameters: what the benchmark of updates works on.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/bytes.h"
#include "core/dtype.h"
#include "core/workers.h"
#include "eps/parameter_store.h"
#include "optimizers/format.h"
#include "optimizers/streams.h"

namespace l2l::tools {

// Anonymous memory, given back at once when it dies. Where each allocation begins within its 2 MiB differs from the
// others, so that streams that advance together do not meet in the same sets of a cache. Thread-bound.
class BenchMemory final : public eps::MemorySource {
 public:
  // `huge`: ask for huge pages, else for small ones (madvise; where the kernel has neither, it does as it likes).
  BenchMemory(Bytes capacity, bool huge);
  ~BenchMemory() override;
  BenchMemory(const BenchMemory&) = delete;
  BenchMemory& operator=(const BenchMemory&) = delete;

  // Throws OutOfMemory where the capacity is spent. What was asked for, plus kSlack, counts.
  std::byte* allocate(Bytes size, std::string_view purpose) override;
  static constexpr Bytes kSlack = Bytes{3} << 20;
  Bytes allocated() const { return allocated_; }

 private:
  std::byte* data_;
  Bytes capacity_, used_ = 0, allocated_ = 0;
  std::size_t allocations_ = 0;
};

inline constexpr int kMostContributions = 8;

// One array per stream and format; formats share what they have in common. Not synchronised: jobs work on disjoint
// runs. A run begins at a multiple of 512 elements.
class UpdateArrays {
 public:
  // Room for `parameters` elements with up to `contributions` 16-bit gradients.
  static Bytes bytes(Bytes parameters, int contributions);
  // Fills everything, in parallel: weights within +-0.1, gradients around 1e-3 in magnitude, moments that belong to
  // them (no denormal, nothing infinite, and updates by any optimizer keep it so).
  UpdateArrays(std::int64_t parameters, int contributions, BenchMemory& memory, Workers& workers);

  std::int64_t parameters() const { return parameters_; }

  using Gradients = std::array<const void*, kMostContributions>;
  // The run of `count` elements from `begin`; `gradients` holds the pointers that it refers to. Gradients are of the
  // wire's type; several contributions only where that is bf16.
  optimizers::Streams run(std::int64_t begin, std::size_t count, DType wire, optimizers::MomentFormats moments,
                          int contributions, Gradients& gradients) const;

 private:
  void fill(std::int64_t begin, std::int64_t end) const;
  optimizers::MomentStream moment(int which, optimizers::MomentFormat format, std::int64_t begin) const;

  std::int64_t parameters_;
  int contributions_;
  // By type of the wire: the f32 wire is the master, the f16 wire has one beside it, and a third of theirs is the
  // split.
  float *master_ = nullptr, *gradient_f32_ = nullptr;
  std::uint16_t *wire_f16_ = nullptr, *gradient_f16_ = nullptr;
  std::uint16_t *wire_bf16_ = nullptr, *low_ = nullptr;
  std::array<std::uint16_t*, kMostContributions> gradients_bf16_{};
  struct Moment {
    float* f32 = nullptr;
    std::uint16_t* bf16 = nullptr;
    std::uint8_t* int8 = nullptr;
    std::uint16_t* scales = nullptr;
  };
  Moment moments_[2];
};

}  // namespace l2l::tools

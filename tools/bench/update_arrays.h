// The arrays that the benchmark of updates works on: one set of parameters in every state format.
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

// Anonymous memory, freed by the destructor. Every allocation begins at another offset within 2 MiB, so that streams
// that advance together do not share cache sets. Thread-bound.
class BenchMemory final : public eps::MemorySource {
 public:
  // `huge`: asks for huge pages, else for small ones (madvise, a hint).
  BenchMemory(Bytes capacity, bool huge);
  ~BenchMemory() override;
  BenchMemory(const BenchMemory&) = delete;
  BenchMemory& operator=(const BenchMemory&) = delete;

  // Throws OutOfMemory when the capacity is spent; an allocation takes up to kSlack more than its size.
  std::byte* allocate(Bytes size, std::string_view purpose) override;
  static constexpr Bytes kSlack = Bytes{3} << 20;
  Bytes allocated() const { return allocated_; }

 private:
  std::byte* data_;
  Bytes capacity_, used_ = 0, allocated_ = 0;
  std::size_t allocations_ = 0;
};

inline constexpr int kMostContributions = 8;

// One array per stream and format, shared by formats where they agree. Thread-safe on disjoint runs. A run begins at a
// multiple of 512 elements.
class UpdateArrays {
 public:
  // Room for `parameters` elements with up to `contributions` 16-bit gradients.
  static Bytes bytes(Bytes parameters, int contributions);
  // Fills everything, in parallel: weights within +-0.1, gradients of magnitude around 1e-3, and matching moments: no
  // denormal, nothing infinite, also after updates by any optimizer.
  UpdateArrays(std::int64_t parameters, int contributions, BenchMemory& memory, Workers& workers);

  std::int64_t parameters() const { return parameters_; }

  using Gradients = std::array<const void*, kMostContributions>;
  // The run of `count` elements from `begin`; refers to the pointers that it writes to `gradients`. Gradients have the
  // wire's type; only bf16 has several contributions.
  optimizers::Streams run(std::int64_t begin, std::size_t count, DType wire, optimizers::MomentFormats moments,
                          int contributions, Gradients& gradients) const;

 private:
  void fill(std::int64_t begin, std::int64_t end) const;
  optimizers::MomentStream moment(int which, optimizers::MomentFormat format, std::int64_t begin) const;

  std::int64_t parameters_;
  int contributions_;
  // The f32 wire is the master, which also serves the f16 wire; the bf16 wire and `low_` are the split master.
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

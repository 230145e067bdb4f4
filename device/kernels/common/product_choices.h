// Which of cuBLASLt's algorithms each product uses, where several were timed: bits depend on it. Needs no CUDA.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "core/kernel_choices.h"

namespace l2l::device::cuda {

// The words of a cublasLtMatmulAlgo_t, which NVIDIA lets a program keep for the same version of the library.
using ProductAlgorithm = std::array<std::uint64_t, 8>;

// Of one device. Thread-safe.
class ProductChoices {
 public:
  // `valid_for`: the GPU and the library that algorithms are chosen on.
  explicit ProductChoices(std::string valid_for) : valid_for_(std::move(valid_for)) {}

  using Accepts = std::function<bool(const ProductAlgorithm&)>;
  using Choose = std::function<std::optional<ProductAlgorithm>()>;
  // The algorithm that is known for `problem` and accepted; else what `choose` returns, which is known from then on.
  // One thread at a time is in here, so that nothing of this process runs beside what is timed.
  std::optional<ProductAlgorithm> get(const std::string& problem, const Accepts& accepts, const Choose& choose);

  // Device::kernel_choices() and Device::take_kernel_choices().
  KernelChoices used() const;
  void take(const KernelChoices& choices);

 private:
  struct Choice {
    ProductAlgorithm algorithm{};
    bool used = false;  // get() has returned it
  };

  const std::string valid_for_;
  mutable std::mutex mutex_;
  std::map<std::string, Choice> known_;  // by problem; guarded by mutex_
};

}  // namespace l2l::device::cuda

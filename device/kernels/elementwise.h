// Loops of host kernels over elements and rows. Their blocks depend on the shape alone (common/partition.h).
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "device/kernels/common/operands.h"
#include "device/kernels/common/partition.h"
#include "device/kernels/kernel.h"
#include "device/kernels/streams.h"

namespace l2l::device::kernels {

// Calls take(begin, end) for blocks of [0, elements), in parallel.
template <typename Take>
void for_blocks(std::int64_t elements, Workers& workers, const Take& take) {
  const Partition blocks = element_blocks(elements);
  workers.parallel_for(blocks.count(), [&](std::int64_t block, int) { take(blocks.begin(block), blocks.end(block)); });
}

// Calls take(row) for each row of a matrix, in parallel.
template <typename Take>
void for_rows(std::int64_t rows, std::int64_t columns, Workers& workers, const Take& take) {
  const Partition blocks = row_blocks(rows, columns);
  workers.parallel_for(blocks.count(), [&](std::int64_t block, int) {
    for (std::int64_t row = blocks.begin(block); row < blocks.end(block); ++row) take(row);
  });
}

// y[i] = Function(inputs[i]...), computed in fp32 and rounded to Y. Function::operator() is forced inline, so that the
// loop becomes vector code.
template <typename Function, typename Y, typename... Inputs>
class Elementwise final : public Kernel {
 public:
  Elementwise(const OpView& op) : elements_(op.output(0).shape.elements()) {
    if (!kOneType) return;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) op.require_dtype(op.output(0).dtype, {i});
  }

  void run(Operands operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    const auto run_on = [&]<std::size_t... I>(std::index_sequence<I...>) {
      apply(workers, as<Y>(operands[sizeof...(Inputs)]), as<const Inputs>(operands[I])...);
    };
    run_on(std::index_sequence_for<Inputs...>());
  }

 private:
  static constexpr bool kOneType = (std::is_same_v<Inputs, Y> && ...);

  void apply(Workers& workers, Y* y, const Inputs*... inputs) const {
    for_blocks(elements_, workers, [=](std::int64_t begin, std::int64_t end) {
      if constexpr (kOneType) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) y[i] = narrow<Y>(Function{}(widen(inputs[i])...));
      } else {
        narrow_each(y, begin, end, [=](std::int64_t i) { return Function{}(widen(inputs[i])...); });
      }
    });
  }

  std::int64_t elements_;
};

// For make_for_dtype() and make_for_stream(): the kernel of a function of one or of two inputs.
template <typename Function>
struct OneInput {
  template <typename T>
  using OfType = Elementwise<Function, T, T>;
  template <typename Stream, typename T>
  using OfStream = Elementwise<Function, T, Stream>;
};
template <typename Function>
struct TwoInputs {
  template <typename T>
  using OfType = Elementwise<Function, T, T, T>;
  template <typename Stream, typename T>
  using OfStream = Elementwise<Function, T, Stream, Stream>;
};

}  // namespace l2l::device::kernels

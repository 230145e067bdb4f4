// Cross entropy over the choices of each question, on the host.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/choice_target.h"
#include "device/kernels/common/operands.h"
#include "device/kernels/convert.h"
#include "device/kernels/kernel.h"

namespace l2l::device::kernels {

// Sums in ascending order of row. With a gradient: operands scores, targets, loss, dscores.
template <bool gradient>
struct ChoiceCrossEntropy {
  template <typename T>
  class OfType final : public Kernel {
   public:
    OfType(const OpView& op) : rows_(op.input(0).shape[0]) {
      op.require_dtype(DType::i32, {1});
      op.require_dtype(DType::f64, {2});
    }

    void run(Operands operands, std::byte*, const LaunchParameters& parameters, Workers&) const override {
      const std::int32_t* targets = as<std::int32_t>(operands[1]);
      if constexpr (gradient) std::fill_n(as<T>(operands[3]), rows_, narrow<T>(0));
      double sum = 0;
      for (std::int64_t row = 0; row < rows_; ++row) {
        if (targets[row] >= 0) sum += question(operands, targets, row, parameters.loss_scale);
      }
      *as<double>(operands[2]) = sum;
    }

   private:
    // Calls take(choice, row) for the rows of the question that begins at `first`.
    template <typename Take>
    void for_choices(const std::int32_t* targets, std::int64_t first, const Take& take) const {
      const std::int32_t choices = choices_of(targets[first]);
      std::int32_t choice = 0;
      for (std::int64_t row = first; row < rows_ && choice < choices; ++row) {
        if (row == first || targets[row] == kFurtherChoice) take(choice++, row);
      }
    }

    double question(Operands operands, const std::int32_t* targets, std::int64_t first, float scale) const {
      const T* scores = as<T>(operands[0]);
      const std::int32_t right = right_choice(targets[first]);
      float highest = -std::numeric_limits<float>::infinity(), chosen = 0, sum = 0;
      for_choices(targets, first, [&](std::int32_t choice, std::int64_t row) {
        highest = std::max(highest, widen(scores[row]));
        if (choice == right) chosen = widen(scores[row]);
      });
      for_choices(targets, first,
                  [&](std::int32_t, std::int64_t row) { sum += std::exp(widen(scores[row]) - highest); });
      if constexpr (gradient) {
        for_choices(targets, first, [&](std::int32_t choice, std::int64_t row) {
          const float share = std::exp(widen(scores[row]) - highest) / sum;
          as<T>(operands[3])[row] = narrow<T>((share - (choice == right ? 1.0f : 0.0f)) * scale);
        });
      }
      return static_cast<double>(highest - chosen) + std::log(static_cast<double>(sum));
    }

    std::int64_t rows_;
  };
};

}  // namespace l2l::device::kernels

// A product of a loss, of which one size is the tokens of a part of the vocabulary. cuBLASLt has fast kernels for
// multiples of eight alone, which vocabularies often are not, so the tokens beyond the last multiple have a product of
// their own.
#pragma once

#include <algorithm>
#include <optional>

#include "device/kernels/matmul_plan.h"

namespace l2l::device::cuda {

// As a MatmulPlan. `rows`: tokens are the rows of y = op(a) b, a lies transposed. `columns`: the columns of y, b lies
// transposed. `sum`: what is summed over; y in 16 bits is then one product, since a sum of two would be rounded twice.
class TokenProduct {
 public:
  enum class Tokens : std::uint8_t { rows, columns, sum };

  TokenProduct(const Context& context, const MatmulShape& shape, Tokens tokens)
      : shape_(shape),
        tokens_(tokens),
        rest_(rest_of(context, shape, tokens)),
        most_(rest_ ? whole(of(shape, tokens)) : of(shape, tokens)),
        main_(context, with(shape, tokens, most_)) {}

  Bytes workspace() const { return std::max(main_.workspace(), rest_ ? rest_->workspace() : 0); }

  void enqueue(MatmulOperands operands, bool accumulate, std::byte* workspace, cudaStream_t stream) const {
    if (rest_) {
      MatmulOperands rest = operands;
      const auto forward = [&](auto*& address, std::int64_t elements, DType dtype) {
        address += static_cast<Bytes>(elements) * size_of(dtype);
      };
      if (tokens_ == Tokens::columns) {
        forward(rest.b, most_ * shape_.k, shape_.input);
        forward(rest.y, most_, shape_.output);
      } else if (tokens_ == Tokens::rows) {
        forward(rest.a, most_, shape_.input);
        forward(rest.y, most_ * shape_.n, shape_.output);
      } else {
        forward(rest.a, most_, shape_.input);
        forward(rest.b, most_ * shape_.n, shape_.input);
      }
      rest_->enqueue(rest, accumulate, workspace, stream);
    }
    main_.enqueue(operands, accumulate || (rest_ && tokens_ == Tokens::sum), workspace, stream);
  }

 private:
  static std::int64_t of(MatmulShape shape, Tokens tokens) { return place(shape, tokens); }
  static std::int64_t& place(MatmulShape& shape, Tokens tokens) {
    return tokens == Tokens::rows ? shape.m : tokens == Tokens::columns ? shape.n : shape.k;
  }
  static MatmulShape with(MatmulShape shape, Tokens tokens, std::int64_t count) {
    place(shape, tokens) = count;
    return shape;
  }
  static std::int64_t whole(std::int64_t tokens) { return tokens / 8 * 8; }
  // None where there is nothing left, where that is all, and where y would be rounded twice.
  static std::optional<MatmulPlan> rest_of(const Context& context, const MatmulShape& shape, Tokens tokens) {
    const std::int64_t all = of(shape, tokens), rest = all - whole(all);
    const bool rounds = tokens == Tokens::sum && shape.output != DType::f32;
    if (rest == 0 || rest == all || rounds) return std::nullopt;
    return MatmulPlan(context, with(shape, tokens, rest));
  }

  MatmulShape shape_;
  Tokens tokens_;
  std::optional<MatmulPlan> rest_;
  std::int64_t most_;  // tokens of the main product
  MatmulPlan main_;
};

}  // namespace l2l::device::cuda

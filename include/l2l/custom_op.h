// An op of a program's own for LayerBuilder::custom(): a function of rows on the host, and its gradient.
//
//   l2l::CustomOp square;
//   square.name = "square", square.version = "1";
//   square.forward = [](const l2l::CustomForward& op) {
//     for (std::size_t i = 0; i < op.y.size(); ++i) op.y[i] = op.x[i] * op.x[i];
//   };
//   square.backward = [](const l2l::CustomBackward& op) {
//     for (std::size_t i = 0; i < op.dx.size(); ++i) op.dx[i] = 2 * op.x[i] * op.dy[i];
//   };
//
// l2l/testing.h checks the gradient.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace l2l {

// Some rows of the operands, in fp32 whatever precision.compute is; matrices lie row by row.
struct CustomForward {
  std::int64_t rows = 0, columns = 0, result_columns = 0;  // of x; of y
  std::span<const float> x;                                // [rows, columns]
  std::span<const float> parameters;                       // all of them; none: empty
  std::span<float> y;                                      // [rows, result_columns], to be written
};

struct CustomBackward {
  std::int64_t rows = 0, columns = 0, result_columns = 0;
  std::span<const float> dy, x, y, parameters;
  std::span<float> dx;           // [rows, columns], to be written
  std::span<float> dparameters;  // to be added to; empty: frozen, or there are none
};

// Constant once it is in use. Its functions are called by several threads at once, each with rows of its own, as often
// as recomputation asks for them: the result of a row must follow from that row and the parameters alone, the same bits
// every time. What they throw ends the run. device.kind = "host" alone.
struct CustomOp {
  std::string name;     // in messages, without spaces; ops of one name and version are taken for the same
  std::string version;  // not empty; another one wherever results differ
  // Columns of y by those of x; empty: as many. Throws BadInput where it cannot take so many.
  std::function<std::int64_t(std::int64_t columns)> result_columns = {};
  std::function<void(const CustomForward&)> forward = {};
  std::function<void(const CustomBackward&)> backward = {};
};

}  // namespace l2l

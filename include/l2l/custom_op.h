// An op of a program's own for LayerBuilder::custom(): a function of rows, and its gradient, on the host and on a GPU.
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

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace l2l {

// Where an op of its own random numbers stands (CustomOp::draws): the same when a layer is computed again, and for no
// two steps, layers, microbatches and ops alike. A number for each element follows from these, `op`, row and column.
struct DrawPlace {
  std::uint64_t seed = 0;  // of the run
  std::uint32_t step = 0, layer = 0, microbatch = 0;
  bool training = true;  // false: validation and prediction, where dropout and its like do nothing
};

// Some rows of the operands, in fp32 whatever precision.compute is; matrices lie row by row.
struct CustomForward {
  std::int64_t rows = 0, columns = 0, result_columns = 0;  // of x; of y
  std::span<const float> x;                                // [rows, columns]
  std::span<const float> parameters;                       // all of them; none: empty
  std::span<float> y;                                      // [rows, result_columns], to be written
  std::int64_t first_row = 0;                              // place of the first of these rows in the microbatch
  DrawPlace place = {};
  std::uint32_t op = 0;  // number of the op in its layer, where it draws
};

struct CustomBackward {
  std::int64_t rows = 0, columns = 0, result_columns = 0;
  std::span<const float> dy, x, y, parameters;
  std::span<float> dx;           // [rows, columns], to be written
  std::span<float> dparameters;  // to be added to; empty: frozen, or there are none
  std::int64_t first_row = 0;
  DrawPlace place = {};
  std::uint32_t op = 0;
};

// On a GPU all rows at once, in precision.compute, in device memory. The function enqueues kernels and copies on
// `stream`, a cudaStream_t, and does nothing else: it neither waits nor allocates, and may be captured into a CUDA
// graph that runs again for other steps. So what differs between steps lies in device memory, too. It asks
// cudaGetLastError() after its launches, and throws where one was refused: the library has a CUDA runtime of its own,
// which knows nothing of them.
struct CustomOnGpu {
  enum class Element : std::uint8_t { fp32, bf16, fp16 };
  std::int64_t rows = 0, columns = 0, result_columns = 0;
  std::int64_t parameter_count = 0;
  Element element = Element::fp32;   // of x, y, parameters, dy and dx
  void* workspace = nullptr;         // of CustomOp::gpu_workspace bytes, which may hold anything
  const DrawPlace* place = nullptr;  // in device memory
  std::uint32_t op = 0;
  void* stream = nullptr;
};

struct CustomForwardOnGpu : CustomOnGpu {
  const void* x = nullptr;           // [rows, columns]
  const void* parameters = nullptr;  // parameter_count
  void* y = nullptr;                 // [rows, result_columns], to be written
};

struct CustomBackwardOnGpu : CustomOnGpu {
  const void *dy = nullptr, *x = nullptr, *y = nullptr, *parameters = nullptr;  // of the same shapes
  void* dx = nullptr;                                                           // [rows, columns], to be written
  float* dparameters = nullptr;  // to be added to, what it holds is of microbatches before; null: frozen, or none
};

// Constant once it is in use. On the host its functions are called by several threads at once, each with rows of its
// own, and everywhere as often as recomputation asks for them: the result of a row must follow from that row, its
// random numbers and the parameters alone, the same bits every time. What they throw ends the run: an Error of the
// library as it is, anything else, on the host, nested (std::rethrow_if_nested) in an Error that names op and layer.
struct CustomOp {
  std::string name;     // in messages, without spaces; ops of one name and version are taken for the same
  std::string version;  // not empty; another one wherever results differ
  // Columns of y by those of x, 1 to 2^31 - 1; empty: as many. Throws BadInput where it cannot take so many.
  std::function<std::int64_t(std::int64_t columns)> result_columns = {};
  std::function<void(const CustomForward&)> forward = {};
  std::function<void(const CustomBackward&)> backward = {};
  bool draws = false;  // random numbers
  // The same on a GPU, which refuses an op without them. Sums over rows must not depend on how the GPU runs, either: no
  // atomic additions of floating-point numbers.
  std::function<void(const CustomForwardOnGpu&)> gpu_forward = {};
  std::function<void(const CustomBackwardOnGpu&)> gpu_backward = {};
  // Bytes that a call of these sizes needs besides, forward or backward, 256-byte aligned; empty: none.
  std::function<std::size_t(const CustomOnGpu&)> gpu_workspace = {};
};

}  // namespace l2l

// Kernels that compute each element on its own.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "device/kernels/common/floats.cuh"
#include "device/kernels/common/launch.cuh"
#include "device/kernels/common/rows.cuh"

namespace l2l::device::cuda {

inline constexpr int kElementwiseThreads = 256;

// Calls body.at<Count>(first) for groups of Count elements (16-byte accesses) and body.at<1>(element) for the rest.
// Each thread first calls body.prepare() on its own copy.
template <int Count, typename Body>
__global__ void __launch_bounds__(kElementwiseThreads) elementwise(std::int64_t elements, Body body) {
  body.prepare();
  const std::int64_t groups = elements / Count, tail = elements - groups * Count;
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * kElementwiseThreads + threadIdx.x;
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * kElementwiseThreads;
  for (std::int64_t group = thread; group < groups; group += threads) body.template at<Count>(group * Count);
  if (thread < tail) body.template at<1>(groups * Count + thread);
}

// Enough blocks to fill the device twice, so that uneven block ends are hidden.
template <int Count, typename Body>
void launch_elementwise(const char* name, const Context& context, std::int64_t elements, const Body& body,
                        cudaStream_t stream) {
  const unsigned int wanted = ceil_div(std::max<std::int64_t>(elements / Count, Count), kElementwiseThreads);
  const unsigned int most = 16 * static_cast<unsigned int>(std::max(1, context.multiprocessors));
  launch(name, elementwise<Count, Body>, {std::min(wanted, most), kElementwiseThreads}, stream, elements, body);
}

// The same for bodies that see rows of `columns` elements of T: groups stay within a row.
template <typename T, typename Body>
void launch_elementwise_rows(const char* name, const Context& context, std::int64_t elements, std::int64_t columns,
                             const Body& body, cudaStream_t stream) {
  if (rows_are_packed<T>(columns)) {
    launch_elementwise<kPack<T>>(name, context, elements, body, stream);
  } else {
    launch_elementwise<1>(name, context, elements, body, stream);
  }
}

// Whether operands may be read and written 16 bytes at a time.
inline bool are_aligned(Operands operands) {
  return std::all_of(operands.begin(), operands.end(),
                     [](const std::byte* operand) { return reinterpret_cast<std::uintptr_t>(operand) % 16 == 0; });
}

// For bodies that need no preparation.
struct Unprepared {
  __device__ void prepare() {}
};

// Base of the bodies that ElementwiseKernel runs. They also have Element, the type whose 16 bytes make a group, and
// bind(operands, parameters), which takes the addresses of one launch.
struct ElementwiseBody : Unprepared {
  static constexpr bool kRows = false;  // true: groups stay within rows of `columns` elements
  std::int64_t elements, columns = 0;

  explicit ElementwiseBody(const OpView& op) : elements(op.output(0).shape.elements()) {}
};

// Stores what Body, a body with one output y, gives in fp32: values<Count>(first).
template <typename Body>
struct Stored : Body {
  using Body::Body;

  template <int Count>
  __device__ void at(std::int64_t first) const {
    store_floats(this->y + first, this->template values<Count>(first));
  }
};

// values[i] = Function()(inputs[i]...).
template <typename Function, typename T, typename... Inputs>
struct MapBody : ElementwiseBody {
  using Element = T;
  using ElementwiseBody::ElementwiseBody;
  const void* inputs[sizeof...(Inputs)] = {};
  T* y = nullptr;

  void bind(Operands operands, const LaunchParameters*) {
    std::copy_n(operands.begin(), sizeof...(Inputs), inputs);
    y = as<T>(operands[sizeof...(Inputs)]);
  }

  template <int Count>
  __device__ Floats<Count> values(std::int64_t first) const {
    return load_and_map<Count>(first, std::index_sequence_for<Inputs...>());
  }

 private:
  template <int Count, std::size_t... kInput>
  __device__ Floats<Count> load_and_map(std::int64_t first, std::index_sequence<kInput...>) const {
    return map(load_floats<Count>(static_cast<const Inputs*>(inputs[kInput]) + first)...);
  }

  template <int Count, typename... Others>
  __device__ static Floats<Count> map(Floats<Count> x, const Others&... others) {
#pragma unroll
    for (int i = 0; i < Count; ++i) x[i] = Function{}(x[i], others[i]...);
    return x;
  }
};

// The kernel of an op that computes each element on its own. Body is made from the op when the kernel is.
template <typename Body>
class ElementwiseKernel final : public Kernel {
 public:
  ElementwiseKernel(const Context& context, const OpView& op)
      : context_(context), name_(compiler::name_of(op.kind)), body_(op) {
    if (Body::kRows) require_groups<T>(body_.elements, body_.columns);
  }

  void enqueue(Operands operands, std::byte*, const LaunchParameters* parameters, cudaStream_t stream) const override {
    Body body = body_;
    body.bind(operands, parameters);
    if (!are_aligned(operands)) {  // such as what lies behind another value, or a row of it
      launch_elementwise<1>(name_.c_str(), context_, body.elements, body, stream);
    } else if constexpr (Body::kRows) {
      launch_elementwise_rows<T>(name_.c_str(), context_, body.elements, body.columns, body, stream);
    } else {
      launch_elementwise<kPack<T>>(name_.c_str(), context_, body.elements, body, stream);
    }
  }

 private:
  using T = typename Body::Element;

  Context context_;
  std::string name_;
  Body body_;  // without addresses
};

// For make_for() and make_for_stream(): the kernel of a function of one or of two inputs.
template <typename Function>
struct OneInput {
  template <typename T>
  using OfType = ElementwiseKernel<Stored<MapBody<Function, T, T>>>;
  template <typename Stream, typename T>
  using OfStream = ElementwiseKernel<Stored<MapBody<Function, T, Stream>>>;
};
template <typename Function>
struct TwoInputs {
  template <typename T>
  using OfType = ElementwiseKernel<Stored<MapBody<Function, T, T, T>>>;
  template <typename Stream, typename T>
  using OfStream = ElementwiseKernel<Stored<MapBody<Function, T, Stream, Stream>>>;
};

}  // namespace l2l::device::cuda

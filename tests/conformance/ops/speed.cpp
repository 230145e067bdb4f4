#include "tests/conformance/ops/speed.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "core/workers.h"
#include "device/kernels/kernel.h"
#include "tests/conformance/ops/op_table.h"
#include "tests/conformance/ops/reference.h"

namespace l2l::test {

using compiler::OpKind;
using Seconds = std::chrono::duration<double>;

double operations(const OpCase& test_case) {
  const auto& op = test_case.op();
  const auto shape = [&](std::size_t i) { return test_case.graph.value(op.inputs[i]).shape; };
  const auto product = [](double a, double b, double c) { return 2 * a * b * c; };
  switch (op.kind) {
    case OpKind::matmul: {
      const Shape y = test_case.graph.value(op.outputs[0]).shape;
      return product(static_cast<double>(y[0]), static_cast<double>(y[1]),
                     static_cast<double>(shape(0)[op.attributes.transpose_a ? 0 : 1]));
    }
    case OpKind::depthwise:
    case OpKind::depthwise_backward: {
      const bool forward = op.kind == OpKind::depthwise;
      const Shape y = forward ? test_case.graph.value(op.outputs[0]).shape : shape(0);
      return product(static_cast<double>(y.elements()), static_cast<double>(shape(forward ? 1 : 2)[1]),
                     forward ? 1 : 2);
    }
    case OpKind::attention:  // two products per head, if causal half of them
    case OpKind::attention_backward: {
      const bool forward = op.kind == OpKind::attention;
      const Shape y = forward ? test_case.graph.value(op.outputs[0]).shape : shape(0);
      const double keys = op.attributes.causal ? (op.attributes.sequence + 1) / 2.0 : op.attributes.sequence;
      return product(static_cast<double>(y[0]) * keys, static_cast<double>(y[1]), forward ? 2 : 5);
    }
    case OpKind::attention_probabilities:
    case OpKind::attention_probabilities_backward:
    case OpKind::attention_mix:
    case OpKind::attention_mix_backward: {
      const bool backward =
          op.kind == OpKind::attention_probabilities_backward || op.kind == OpKind::attention_mix_backward;
      const std::size_t qkv = op.kind == OpKind::attention_probabilities ? 0 : backward ? 2 : 1;
      const double heads = op.attributes.heads + 2.0 * kv_heads(op.attributes);
      const double keys = op.attributes.causal ? (op.attributes.sequence + 1) / 2.0 : op.attributes.sequence;
      return product(static_cast<double>(shape(qkv)[0]) * keys,
                     static_cast<double>(shape(qkv)[1]) / heads * op.attributes.heads, backward ? 2 : 1);
    }
    case OpKind::linear_cross_entropy:
    case OpKind::linear_cross_entropy_backward:
      return product(static_cast<double>(shape(0)[0]), static_cast<double>(shape(0)[1]),
                     static_cast<double>(shape(1)[0])) *
             (op.kind == OpKind::linear_cross_entropy ? 1 : 3);
    default:
      return 0;
  }
}

namespace {

struct AlignedDelete {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using AlignedMemory = std::unique_ptr<std::byte[], AlignedDelete>;

AlignedMemory allocate(Bytes bytes) {
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(64, align_up(std::max<Bytes>(bytes, 64), 64)));
  std::memset(memory, 0, bytes);
  return AlignedMemory(memory);
}

}  // namespace

void fill(std::byte* memory, const compiler::Value& value) {
  // Elements repeat.
  const std::int64_t elements = value.shape.elements(), period = std::min<std::int64_t>(elements, 251 * 2003);
  for (std::int64_t i = 0; i < period; ++i) {
    const float number = static_cast<float>((i * 7919) % 2003) / 2003.0f - 0.5f;
    if (value.dtype == DType::f32) reinterpret_cast<float*>(memory)[i] = number;
    if (value.dtype == DType::bf16) reinterpret_cast<bf16*>(memory)[i] = to_bf16(number);
    if (value.dtype == DType::f16) reinterpret_cast<f16*>(memory)[i] = to_f16(number);
    const auto token = static_cast<std::int32_t>(i * 7919 % 251);
    if (value.dtype == DType::i32) reinterpret_cast<std::int32_t*>(memory)[i] = token;
  }
  const Bytes size = size_of(value.dtype);
  for (std::int64_t i = period; i < elements; i += period) {
    const std::int64_t count = std::min(period, elements - i);
    std::memcpy(memory + static_cast<Bytes>(i) * size, memory, static_cast<Bytes>(count) * size);
  }
}

namespace {

struct Timing {
  double median, best;
};

Timing measure(const OpCase& test_case, Workers& workers) {
  const auto kernel = device::kernels::make_kernel(test_case.graph, 0);
  const AlignedMemory workspace = allocate(kernel->workspace(workers.threads()));
  std::vector<AlignedMemory> memory;
  std::vector<std::byte*> operands;
  for (const auto& value : test_case.graph.values) {  // in order: inputs, then outputs
    memory.push_back(allocate(value.bytes()));
    operands.push_back(memory.back().get());
    fill(operands.back(), value);
  }
  std::vector<double> seconds;
  for (double total = 0; seconds.size() < 5 || (total < 0.2 && seconds.size() < 1000); total += seconds.back()) {
    const auto begin = std::chrono::steady_clock::now();
    kernel->run(operands, workspace.get(), test_case.parameters, workers);
    seconds.push_back(Seconds(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(seconds.begin(), seconds.end());
  return {seconds[seconds.size() / 2], seconds.front()};
}

}  // namespace

int run_speed(int threads, const char* filter) {
  Workers workers("speed", threads);
  std::printf("%-56s %10s %10s %8s %9s\n", "op", "median ms", "best ms", "GB/s", "GFLOP/s");
  for (const OpCase& test_case : speed_cases()) {
    if (test_case.name.find(filter) == std::string::npos) continue;
    const Timing timing = measure(test_case, workers);
    double bytes = 0;
    for (const auto& value : test_case.graph.values) bytes += static_cast<double>(value.bytes());
    std::printf("%-56s %10.4f %10.4f %8.1f %9.1f\n", test_case.name.c_str(), timing.median * 1e3, timing.best * 1e3,
                bytes / timing.best / 1e9, operations(test_case) / timing.best / 1e9);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace l2l::test

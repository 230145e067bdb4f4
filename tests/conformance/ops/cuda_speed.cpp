// Speed of CUDA's kernels, on the device of cuda_runner.cpp.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <optional>

#include "device/kernels/cuda_factories.h"
#include "tests/conformance/ops/cuda_support.h"
#include "tests/conformance/ops/harness.h"
#include "tests/conformance/ops/speed.h"

namespace l2l::test {
namespace {

namespace cuda = device::cuda;
using compiler::OpKind;

constexpr int kBatches = 7;

double bytes_of(const OpCase& test_case) {
  double bytes = 0;
  for (const auto& value : test_case.graph.values) bytes += static_cast<double>(value.bytes());
  return bytes;
}

// A kernel with operands of its own.
class Run {
 public:
  explicit Run(const OpCase& test_case)
      : kernel_(cuda::make_kernel(cuda_context(), test_case.graph, 0)),
        workspace_(std::max<Bytes>(kernel_->workspace(), 1), 0),
        parameters_(sizeof test_case.parameters, 0) {
    parameters_.write(0, std::as_bytes(std::span(&test_case.parameters, 1)));
    for (const auto& value : test_case.graph.values) {  // in order: inputs, then outputs
      std::vector<std::byte> host(value.bytes());
      fill(host.data(), value);
      operands_.emplace_back(value.bytes(), 0).write(0, host);
      pointers_.push_back(operands_.back().data());
    }
  }

  Bytes workspace() const { return kernel_->workspace(); }
  // Seconds for `times` runs.
  double operator()(std::int64_t times) const {
    const auto* parameters = reinterpret_cast<const device::LaunchParameters*>(parameters_.data());
    const auto begin = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < times; ++i) {
      kernel_->enqueue(pointers_, workspace_.data(), parameters, stream_.get());
    }
    cuda::check(cudaStreamSynchronize(stream_.get()), "speed");
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

 private:
  std::unique_ptr<cuda::Kernel> kernel_;
  CudaStream stream_;
  DeviceMemory workspace_, parameters_;
  std::vector<DeviceMemory> operands_;
  std::vector<std::byte*> pointers_;
};

// TFLOP/s of a plain product; measured once per type.
class LargeProducts {
 public:
  LargeProducts(std::int64_t size, double batch_seconds) : size_(size), batch_seconds_(batch_seconds) {}

  double operator()(DType dtype) {
    double& teraflops = known_[dtype];
    if (teraflops == 0) {
      teraflops = measure_cuda(matmul_case(dtype, dtype, {size_, size_, size_}), batch_seconds_).teraflops;
    }
    return teraflops;
  }

 private:
  std::int64_t size_;
  double batch_seconds_;
  std::map<DType, double> known_;
};

// Of the products in an op; none where it has no floating-point operand.
std::optional<DType> product_type(const OpCase& test_case) {
  for (const auto& value : test_case.graph.values) {
    if (is_compute_type(value.dtype)) return value.dtype;
  }
  return std::nullopt;
}

// One transformer layer's products: forward, of the gradient, and added to the weight's gradient.
void add_linear(std::vector<OpCase>& cases, DType dtype, std::int64_t rows, std::int64_t in, std::int64_t out,
                bool bias) {
  cases.push_back(matmul_case(dtype, dtype, {rows, out, in, false, false, bias}));
  cases.push_back(matmul_case(dtype, dtype, {rows, in, out, false, true}));
  cases.push_back(matmul_case(dtype, DType::f32, {in, out, rows, true, false, false, true}));
}

// With the products of one of its panels (logit_panels.h).
void add_loss(std::vector<OpCase>& cases, DType dtype, std::int64_t rows, std::int64_t hidden,
              std::int64_t vocabulary) {
  constexpr std::int64_t kRows = 4096, kTokens = 7680;
  cases.push_back(matmul_case(dtype, DType::f32, {kRows, kTokens, hidden, false, true}));
  cases.push_back(matmul_case(dtype, DType::f32, {kRows, hidden, kTokens, false, false, false, true}));
  cases.push_back(matmul_case(dtype, DType::f32, {kTokens, hidden, kRows, true, false, false, true}));
  cases.push_back(linear_cross_entropy_case(dtype, rows, hidden, vocabulary));
  cases.push_back(linear_cross_entropy_backward_case(dtype, rows, hidden, vocabulary));
}

}  // namespace

CudaSpeed measure_cuda(const OpCase& test_case, double batch_seconds) {
  const Run run(test_case);
  run(2);  // loads code, warms the clocks
  const auto times = static_cast<std::int64_t>(std::clamp(batch_seconds / run(1), 1.0, 1e5));
  std::vector<double> seconds;
  for (int batch = 0; batch < kBatches; ++batch) seconds.push_back(run(times) / static_cast<double>(times));
  std::nth_element(seconds.begin(), seconds.begin() + kBatches / 2, seconds.end());
  const double median = seconds[kBatches / 2];
  return {median, bytes_of(test_case) / median / 1e12, operations(test_case) / median / 1e12, run.workspace()};
}

std::vector<OpCase> cuda_speed_cases() {
  std::vector<OpCase> cases;
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
    constexpr std::int64_t kRows = 16384, kBert = 1024, kLlama = 4096, kLlamaUp = 11008;
    add_linear(cases, dtype, kRows, kBert, 3 * kBert, true);
    add_linear(cases, dtype, kRows, kBert, kBert, true);
    add_linear(cases, dtype, kRows, kBert, 4 * kBert, true);
    add_linear(cases, dtype, kRows, 4 * kBert, kBert, true);
    add_linear(cases, dtype, kRows, kLlama, 3 * kLlama, false);
    add_linear(cases, dtype, kRows, kLlama, 2 * kLlamaUp, false);
    add_linear(cases, dtype, kRows, kLlamaUp, kLlama, false);
    add_loss(cases, dtype, kRows, kBert, 30522);
    add_loss(cases, dtype, kRows, kLlama, 32000);
    add_loss(cases, dtype, kRows / 4, kLlama, 128256);
    for (const AttentionCase& shape :
         {AttentionCase{32, 512, 16, 64}, AttentionCase{2, 2048, 32, 128}, AttentionCase{8, 2048, 32, 128},
          AttentionCase{2, 4096, 32, 128}, AttentionCase{16, 1024, 28, 152}, AttentionCase{8, 1024, 12, 64},
          AttentionCase{8, 1024, 12, 64, 0.1f}}) {
      cases.push_back(attention_case(dtype, shape));
      cases.push_back(attention_backward_case(dtype, shape));
    }
    cases.push_back(layer_norm_case(dtype, kRows, kBert));
    cases.push_back(layer_norm_backward_case(dtype, kRows, kBert));
    cases.push_back(bias_gradient_case(dtype, kRows, 3 * kBert));
    cases.push_back(dropout_case(dtype, kRows, kBert, 0.1f));
    cases.push_back(embedding_case(dtype, kRows, 512, kBert, 30522));
    cases.push_back(embedding_backward_case(dtype, kRows, 512, kBert, 30522));
    cases.push_back(rms_norm_case(dtype, kRows, kLlama));
    cases.push_back(rms_norm_backward_case(dtype, kRows, kLlama));
    cases.push_back(swiglu_case(dtype, kRows, kLlamaUp));
    cases.push_back(swiglu_backward_case(dtype, kRows, kLlamaUp));
    cases.push_back(rotary_case(dtype, {8, 2048, 32, 128}, 10000, false));
    constexpr std::int64_t kPixels = 64 * 32 * 32, kChannels = 256;
    cases.push_back(batch_norm_case(dtype, kPixels, kChannels, true));
    cases.push_back(group_norm_backward_case(dtype, {1, kPixels, 1, kChannels}, kChannels));
    const compiler::Window three{.size = {3, 3}, .padding = {1, 1}};
    for (const OpKind kind : {OpKind::unfold, OpKind::fold, OpKind::depthwise, OpKind::depthwise_backward}) {
      cases.push_back(window_case(kind, dtype, {64, 32, 32, kChannels}, three));
    }
    cases.push_back(unpack_case(dtype, WordElement::u8, 64, 224 * 224, 3));
    cases.push_back(tree_sum_case(dtype, 8, 32 * 1024 * 1024));
    for (const OpKind kind : {OpKind::gelu, OpKind::gelu_backward, OpKind::add, OpKind::convert}) {
      cases.push_back(pointwise_case(kind, dtype, kRows, 4 * kBert));
    }
  }
  return cases;
}

int run_cuda_speed(const std::vector<OpCase>& cases, std::span<const char* const> filters, std::int64_t size,
                   double batch_seconds) {
  const auto wanted = [&](const std::string& name) {
    return filters.empty() ||
           std::ranges::any_of(filters, [&](const char* filter) { return name.find(filter) != std::string::npos; });
  };
  LargeProducts large(size, batch_seconds);
  int measured = 0;
  std::printf("%-64s %10s %8s %13s %9s %8s\n", "op", "median ms", "TB/s", "workspace MiB", "TFLOP/s", "of large");
  for (const OpCase& test_case : cases) {
    if (!wanted(test_case.name)) continue;
    const CudaSpeed speed = measure_cuda(test_case, batch_seconds);
    std::printf("%-64s %10.4f %8.3f %13.1f", test_case.name.c_str(), speed.seconds * 1e3, speed.terabytes,
                static_cast<double>(speed.workspace) / kMiB);
    const std::optional<DType> dtype = product_type(test_case);
    if (speed.teraflops > 0 && dtype) {
      std::printf(" %9.1f %7.0f%%", speed.teraflops, 100 * speed.teraflops / large(*dtype));
    }
    std::printf("\n");
    std::fflush(stdout);
    ++measured;
  }
  return measured;
}

}  // namespace l2l::test

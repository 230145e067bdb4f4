// Runs cases on the CUDA device 0, through the runtime API alone: a GPU, or where this program is linked with it, the
// emulation of tests/emulation.
#include <cstdlib>

#include "device/kernels/cuda_factories.h"
#include "l2l/errors.h"
#include "tests/conformance/ops/cuda_support.h"
#include "tests/conformance/ops/guard.h"
#include "tests/conformance/ops/harness.h"

namespace l2l::test {
namespace {

namespace cuda = device::cuda;

cuda::Context make_context() {
  const auto attribute = [](cudaDeviceAttr name) {
    int value = 0;
    cuda::check(cudaDeviceGetAttribute(&value, name, 0), "cudaDeviceGetAttribute");
    return value;
  };
  cuda::check(cudaSetDevice(0), "cudaSetDevice");
  cuda::Context context;
  context.compute_capability =
      10 * attribute(cudaDevAttrComputeCapabilityMajor) + attribute(cudaDevAttrComputeCapabilityMinor);
  context.multiprocessors = attribute(cudaDevAttrMultiProcessorCount);
  context.shared_memory_per_block = static_cast<std::size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
  std::size_t free = 0, total = 0;
  cuda::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  context.attention_workspace = total / 32;                // as a device sets it (device/cuda/device_state.cpp)
  context.cudnn = std::getenv("L2L_NO_CUDNN") == nullptr;  // set: our own attention is tested, not cuDNN's
  cuda::check(cublasLtCreate(&context.cublas_lt), "cublasLtCreate");
  return context;
}

[[maybe_unused]] const bool kTies = bf16_ties_to_even = true;  // before main()

// Behind the workspace lies a guard.
DeviceMemory guarded_workspace(Bytes bytes) {
  DeviceMemory memory(bytes + kGuardBytes, 0);
  const std::vector<std::byte> guard(kGuardBytes, kGuard);
  memory.write(bytes, guard);
  return memory;
}

}  // namespace

cuda::Context& cuda_context() {
  static cuda::Context made = make_context();
  return made;
}

bool rounds_attention_weights(compiler::OpKind kind, DType dtype) {
  using compiler::OpKind;
  if (dtype == DType::f32) return cuda_context().tf32;  // q, k, v and dy as well
  return kind == OpKind::attention || kind == OpKind::attention_backward ||
         kind == OpKind::attention_probabilities_backward;
}

std::vector<int> variants() { return cuda_variants(); }

void run_kernel(const OpCase& test_case, Memory& memory, int variant) {
  choose_cuda_variant(variant);
  const auto kernel = cuda::make_kernel(cuda_context(), test_case.graph, 0);
  CudaStream stream;
  std::vector<DeviceMemory> operands;
  std::vector<std::byte*> pointers;
  for (const auto bytes : memory.with_guards()) {
    DeviceMemory& operand = operands.emplace_back(bytes.size(), 16);
    operand.write(0, bytes);
    pointers.push_back(operand.data());
  }
  DeviceMemory workspace = guarded_workspace(kernel->workspace());
  DeviceMemory parameters(sizeof test_case.parameters, 0);
  parameters.write(0, std::as_bytes(std::span(&test_case.parameters, 1)));

  kernel->enqueue(pointers, workspace.data(), reinterpret_cast<device::LaunchParameters*>(parameters.data()),
                  stream.get());
  cuda::check(cudaStreamSynchronize(stream.get()), test_case.name.c_str());

  const auto hosts = memory.with_guards();
  for (std::size_t i = 0; i < hosts.size(); ++i) operands[i].read(0, hosts[i]);
  memory.check_guards();
  std::vector<std::byte> guard(kGuardBytes);
  workspace.read(kernel->workspace(), guard);
  if (!intact(guard.data())) throw Error("the workspace was written behind its end");
}

}  // namespace l2l::test

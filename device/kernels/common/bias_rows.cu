#include "device/kernels/common/bias_rows.h"

#include "device/kernels/common/convert.cuh"
#include "device/kernels/common/launch.cuh"

namespace l2l::device::cuda {
namespace {

constexpr int kThreads = 256;

template <typename T, typename Bias>
__global__ void bias_rows(const Bias* bias, T* y, std::int64_t elements, std::int64_t columns, bool accumulate) {
  const std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kPack<T>;
  if (first >= elements) return;
  const bool whole = columns % kPack<T> == 0;  // a pack lies in one row, and all packs are full
  Pack<T> pack{};
  if (accumulate && whole) pack = load_pack(y + first);
  for (int i = 0; i < kPack<T>; ++i) {
    if (first + i >= elements) break;
    const float value = widen(bias[(first + i) % columns]);
    const T before = accumulate && !whole ? y[first + i] : pack.elements[i];
    pack.elements[i] = narrow<T>(accumulate ? widen(before) + value : value);
    if (!whole) y[first + i] = pack.elements[i];
  }
  if (whole) store_pack(y + first, pack);
}

template <typename T, typename Bias>
void launch_bias_rows(const std::byte* bias, std::byte* y, std::int64_t elements, std::int64_t columns, bool accumulate,
                      cudaStream_t stream) {
  const LaunchShape shape{dim3(ceil_div(elements, std::int64_t{kThreads} * kPack<T>)), dim3(kThreads)};
  launch("bias_rows", bias_rows<T, Bias>, shape, stream, reinterpret_cast<const Bias*>(bias), reinterpret_cast<T*>(y),
         elements, columns, accumulate);
}

}  // namespace

BiasRows::BiasRows(const compiler::Value& y, DType bias, bool accumulate)
    : elements_(y.shape.elements()), columns_(y.shape[1]), y_(y.dtype), bias_(bias), accumulate_(accumulate) {
  if (is_compute_type(bias) && (y_ == bias || y_ == DType::f32)) return;
  throw BadInput("no CUDA kernel for a bias of " + std::string(name_of(bias)) + " and a sum of " +
                 std::string(name_of(y_)));
}

void BiasRows::enqueue(const std::byte* bias, std::byte* y, cudaStream_t stream) const {
  const auto with = [&]<typename T, typename Bias>(T, Bias) {
    launch_bias_rows<T, Bias>(bias, y, elements_, columns_, accumulate_, stream);
  };
  if (bias_ == DType::f32) return with(float{}, float{});
  if (bias_ == DType::bf16) {
    return y_ == DType::f32 ? with(float{}, __nv_bfloat16{}) : with(__nv_bfloat16{}, __nv_bfloat16{});
  }
  return y_ == DType::f32 ? with(float{}, __half{}) : with(__half{}, __half{});
}

}  // namespace l2l::device::cuda

// Sums over some of four dimensions, in an order that depends on the shape alone. Neighbours that are both kept or both
// summed are one dimension, so at most two of either kind are left.
#pragma once

#include <algorithm>
#include <limits>
#include <string>

#include "device/kernels/common/floats.cuh"
#include "device/kernels/common/launch.cuh"
#include "device/kernels/common/reduce.cuh"
#include "device/kernels/common/rows.cuh"

namespace l2l::device::cuda {

// Indices over two dimensions, of which the inner one varies faster, and where they lie.
struct TwoAxes {
  std::uint32_t inner = 1, outer = 1;
  std::int64_t inner_stride = 0, outer_stride = 0;

  std::int64_t size() const { return static_cast<std::int64_t>(inner) * outer; }
  void append(std::int64_t dim, std::int64_t stride) {
    (inner_stride == 0 ? inner : outer) = static_cast<std::uint32_t>(dim);
    (inner_stride == 0 ? inner_stride : outer_stride) = stride;
  }
  void widen_last(std::int64_t dim) { (outer_stride == 0 ? inner : outer) *= static_cast<std::uint32_t>(dim); }

  __device__ std::int64_t at(std::int64_t index) const {
    if (outer == 1) return index * inner_stride;
    const auto i = static_cast<std::uint32_t>(index);
    const std::uint32_t above = i / inner;
    return above * outer_stride + (i - above * inner) * inner_stride;
  }
};

// Term t of output o is at outputs.at(o) + terms.at(t).
struct SummedDims {
  TwoAxes outputs, terms;
  bool inner_kept = true;  // neighbouring outputs are neighbours in memory; false: neighbouring terms are

  // Throws BadInput when 32 bits cannot count outputs or terms.
  explicit SummedDims(const compiler::Attributes& attributes) {
    bool first = true, last_kept = true;
    std::int64_t stride = 1, sizes[2] = {1, 1};
    for (std::size_t i = attributes.dims.size(); i-- > 0;) {
      const std::int64_t dim = attributes.dims[i];
      if (dim == 1) continue;
      const bool kept = (attributes.kept >> i & 1u) != 0;
      sizes[kept] *= dim;
      if (sizes[kept] > std::numeric_limits<std::uint32_t>::max()) {
        throw BadInput(std::to_string(sizes[kept]) + (kept ? " sums" : " terms of a sum") + ", at most 2^32 - 1");
      }
      TwoAxes& axes = kept ? outputs : terms;
      if (first || kept != last_kept) {
        axes.append(dim, stride);
      } else {
        axes.widen_last(dim);
      }
      if (first) inner_kept = kept;
      first = false;
      last_kept = kept;
      stride *= dim;
    }
  }

  // The innermost dimension.
  std::int64_t inner_size() const { return inner_kept ? outputs.inner : terms.inner; }
};

template <typename T>
struct SummedInput {
  const T* x;
  TwoAxes outputs, terms;

  // Count neighbours, outputs or terms.
  template <int Count>
  __device__ Floats<Count> at(std::int64_t output, std::int64_t term) const {
    return load_floats<Count>(x + outputs.at(output) + terms.at(term));
  }
};

// The sums of slabs of terms: [slabs, outputs].
struct PartialSums {
  float* partials;
  std::int64_t outputs;

  template <int Count>
  __device__ Floats<Count> at(std::int64_t output, std::int64_t slab) const {
    return load_floats<Count>(partials + slab * outputs + output);
  }
  template <int Count>
  __device__ void store(std::int64_t output, std::int64_t slab, const Floats<Count>& sums) const {
    store_floats(partials + slab * outputs + output, sums);
  }
};

// y = factor times the sum, or, kAdd, y += that.
template <typename T, bool kAdd>
struct FinalSums {
  T* y;
  float factor;

  template <int Count>
  __device__ void store(std::int64_t output, std::int64_t, Floats<Count> sums) const {
    if constexpr (kAdd) {
      const Floats<Count> old = load_floats<Count>(y + output);
#pragma unroll
      for (int i = 0; i < Count; ++i) sums[i] = fmaf(factor, sums[i], old[i]);
    } else {
#pragma unroll
      for (int i = 0; i < Count; ++i) sums[i] *= factor;
    }
    store_floats(y + output, sums);
  }
};

inline constexpr int kDimensionSumThreads = 256;

// Where neighbouring outputs are neighbours in memory: a block has kLanes * Count of them, and its threads that share
// outputs take turns over the terms of a slab, which is blockIdx.y.
template <int Count, int kLanes, typename Source, typename Target>
__global__ void __launch_bounds__(kDimensionSumThreads)
    sum_across(std::int64_t outputs, std::int64_t terms, std::int64_t slab_terms, Source source, Target target) {
  constexpr int kTurns = kDimensionSumThreads / kLanes;
  __shared__ float shared[kTurns][kTurns > 1 ? kLanes * Count : 1];
  const int lane = static_cast<int>(threadIdx.x) % kLanes, turn = static_cast<int>(threadIdx.x) / kLanes;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kLanes * Count, output = first + lane * Count;
  const std::int64_t begin = blockIdx.y * slab_terms, end = min(terms, begin + slab_terms);
  Floats<Count> sum{};
  if (output < outputs) {
#pragma unroll 4
    for (std::int64_t term = begin + turn; term < end; term += kTurns) {
      const Floats<Count> values = source.template at<Count>(output, term);
#pragma unroll
      for (int i = 0; i < Count; ++i) sum[i] += values[i];
    }
  }
  if constexpr (kTurns == 1) {
    if (output < outputs) target.store(output, blockIdx.y, sum);
  } else {
#pragma unroll
    for (int i = 0; i < Count; ++i) shared[turn][lane * Count + i] = sum[i];
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < kLanes * Count && first + i < outputs; i += kDimensionSumThreads) {
      Floats<1> total{};
#pragma unroll
      for (int other = 0; other < kTurns; ++other) total[0] += shared[other][i];
      target.store(first + i, blockIdx.y, total);
    }
  }
}

// Where neighbouring terms are neighbours in memory: kThreads threads share an output's terms of a slab.
template <int Count, int kThreads, typename Source, typename Target>
__global__ void __launch_bounds__(kDimensionSumThreads)
    sum_along(std::int64_t outputs, std::int64_t terms, std::int64_t slab_terms, Source source, Target target) {
  constexpr int kOutputs = kDimensionSumThreads / kThreads;
  __shared__ Floats<1> shared[kDimensionSumThreads / 32];
  const int thread = static_cast<int>(threadIdx.x) % kThreads;
  const std::int64_t output = static_cast<std::int64_t>(blockIdx.x) * kOutputs + threadIdx.x / kThreads;
  if (output >= outputs) return;
  const std::int64_t begin = blockIdx.y * slab_terms, end = min(terms, begin + slab_terms);
  Floats<Count> sum{};
#pragma unroll 4
  for (std::int64_t term = begin + thread * Count; term < end; term += kThreads * Count) {
    const Floats<Count> values = source.template at<Count>(output, term);
#pragma unroll
    for (int i = 0; i < Count; ++i) sum[i] += values[i];
  }
  float total = 0;
#pragma unroll
  for (int i = 0; i < Count; ++i) total += sum[i];
  total = group_sum<kThreads>(total, shared);
  if (thread == 0) target.store(output, blockIdx.y, Floats<1>{{total}});
}

// x of `dims` -> y, the sums over the dimensions that are not kept, of type Out (kAdd: +=). Reads x once; long sums
// with few outputs are cut into slabs, whose sums are added in ascending order.
template <typename T, typename Out, bool kAdd>
class DimensionSums final : public Kernel {
 public:
  DimensionSums(const Context&, const OpView& op)
      : name_(compiler::name_of(op.kind)), dims_(op.attributes), factor_(op.attributes.factor) {
    const bool across = dims_.inner_kept;
    const std::int64_t at_once = across ? kTurns : kDimensionSumThreads * width();  // terms, by one block
    if (is_short()) return;
    // Some blocks for each of a hundred multiprocessors, and several terms for each thread.
    constexpr std::int64_t kBlocks = 1056, kMostSlabs = 256;
    const std::int64_t blocks = across ? ceil_div(outputs(), kLanes * width()) : outputs();
    const std::int64_t most = std::min<std::int64_t>(kMostSlabs, ceil_div(terms(), 4 * at_once));
    const std::int64_t wanted = std::clamp<std::int64_t>(kBlocks / blocks, 1, most);
    slab_terms_ = at_once * ceil_div(terms(), wanted * at_once);
  }

  Bytes workspace() const override {
    return slabs() == 1 ? 0 : static_cast<Bytes>(slabs() * outputs()) * sizeof(float);
  }

  void enqueue(Operands operands, std::byte* workspace, const LaunchParameters*, cudaStream_t stream) const override {
    const SummedInput<T> input{as<const T>(operands[0]), dims_.outputs, dims_.terms};
    const FinalSums<Out, kAdd> result{as<Out>(operands[1]), factor_};
    if (slabs() == 1) return enqueue_terms(input, result, stream);
    const PartialSums partials{as<float>(workspace), outputs()};
    enqueue_terms(input, partials, stream);
    launch(name_.c_str(), sum_across<1, kLanes, PartialSums, FinalSums<Out, kAdd>>,
           {ceil_div(outputs(), kLanes), kDimensionSumThreads}, stream, outputs(), slabs(), slabs(), partials, result);
  }

 private:
  static constexpr int kLanes = 32, kTurns = kDimensionSumThreads / kLanes;

  std::int64_t outputs() const { return dims_.outputs.size(); }
  std::int64_t terms() const { return dims_.terms.size(); }
  std::int64_t slabs() const { return is_short() ? 1 : ceil_div(terms(), slab_terms_); }
  bool packed() const { return rows_are_packed<T>(dims_.inner_size()); }
  std::int64_t width() const { return packed() ? kPack<T> : 1; }
  // Too few terms for the threads of a block.
  bool is_short() const { return terms() <= (dims_.inner_kept ? kTurns : 4 * kDimensionSumThreads); }

  template <typename Target>
  void enqueue_terms(const SummedInput<T>& input, const Target& target, cudaStream_t stream) const {
    if (packed()) {
      enqueue_groups<kPack<T>>(input, target, stream);
    } else {
      enqueue_groups<1>(input, target, stream);
    }
  }

  template <int Count, typename Target>
  void enqueue_groups(const SummedInput<T>& input, const Target& target, cudaStream_t stream) const {
    using Source = SummedInput<T>;
    constexpr int kAll = kDimensionSumThreads;
    const auto run = [&](auto kernel, std::int64_t outputs_of_block) {
      const LaunchShape shape{dim3(ceil_div(outputs(), outputs_of_block), static_cast<unsigned int>(slabs())), kAll};
      launch(name_.c_str(), kernel, shape, stream, outputs(), terms(), is_short() ? terms() : slab_terms_, input,
             target);
    };
    if (dims_.inner_kept) {
      if (is_short()) return run(sum_across<Count, kAll, Source, Target>, kAll * Count);
      run(sum_across<Count, kLanes, Source, Target>, kLanes * Count);
    } else {
      if (is_short()) return run(sum_along<Count, 32, Source, Target>, kAll / 32);
      run(sum_along<Count, kAll, Source, Target>, 1);
    }
  }

  std::string name_;
  SummedDims dims_;
  float factor_;
  std::int64_t slab_terms_ = 1;
};

}  // namespace l2l::device::cuda

// Sums over the rows of a matrix in two steps: slabs of rows into partial sums, then these in ascending order. Both
// orders depend on the shape alone.
#pragma once

#include <algorithm>

#include "device/kernels/common/elementwise.cuh"

namespace l2l::device::cuda {

inline constexpr int kSlices = 8, kSumThreads = 32 * kSlices;

// sums[i] += partials[b * columns + i] over the `blocks` blocks b.
template <int kColumns>
__global__ void __launch_bounds__(kColumns* kSlices)
    partial_sums(const float* partials, std::int64_t blocks, std::int64_t columns, float* sums) {
  __shared__ float shared[kSlices][kColumns];
  const unsigned int lane = threadIdx.x % kColumns, slice = threadIdx.x / kColumns;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kColumns + lane;
  float total = 0;
  if (column < columns) {
#pragma unroll 8
    for (std::int64_t block = slice; block < blocks; block += kSlices) total += partials[block * columns + column];
  }
  shared[slice][lane] = total;
  __syncthreads();
  if (slice > 0 || column >= columns) return;
#pragma unroll
  for (int other = 1; other < kSlices; ++other) total += shared[other][lane];
  sums[column] += total;
}

inline void launch_partial_sums(const float* partials, std::int64_t blocks, std::int64_t columns, float* sums,
                                cudaStream_t stream) {
  launch("partial_sums", partial_sums<32>, {ceil_div(columns, 32), kSumThreads}, stream, partials, blocks, columns,
         sums);
}

// partials[s * columns + c] = sum of source.at<Count>(row, c) over the rows of slab s; at() is called once per group of
// Count columns. Each thread first calls source.prepare() on its own copy.
template <int Count, typename Source>
__global__ void __launch_bounds__(kSumThreads)
    slab_sums(std::int64_t rows, std::int64_t columns, std::int64_t slab_rows, Source source, float* partials) {
  __shared__ float shared[kSlices][32 * Count];
  source.prepare();
  const unsigned int lane = threadIdx.x % 32, slice = threadIdx.x / 32;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * 32 * Count, column = first + lane * Count;
  const std::int64_t begin = blockIdx.y * slab_rows, end = min(rows, begin + slab_rows);
  Floats<Count> sum{};
  if (column < columns) {
#pragma unroll 4
    for (std::int64_t row = begin + slice; row < end; row += kSlices) {
      const Floats<Count> values = source.template at<Count>(row, column);
#pragma unroll
      for (int i = 0; i < Count; ++i) sum[i] += values[i];
    }
  }
#pragma unroll
  for (int i = 0; i < Count; ++i) shared[slice][lane * Count + i] = sum[i];
  __syncthreads();
  for (unsigned int i = threadIdx.x; i < 32 * Count && first + i < columns; i += kSumThreads) {
    float total = 0;
#pragma unroll
    for (int other = 0; other < kSlices; ++other) total += shared[other][i];
    partials[blockIdx.y * columns + first + i] = total;
  }
}

// A source that reads a matrix with `stride` elements from row to row.
template <typename T>
struct MatrixSource : Unprepared {
  const T* matrix = nullptr;
  std::int64_t stride = 0;

  template <int Count>
  __device__ Floats<Count> at(std::int64_t row, std::int64_t column) const {
    return load_floats<Count>(matrix + row * stride + column);
  }
};

// Sums of all columns of a matrix. A Source gives its elements, and may also store them.
template <typename T>
class ColumnSums {
 public:
  ColumnSums(std::int64_t rows, std::int64_t columns) : ColumnSums(rows, columns, columns) {}
  // Of a source that may be read up to `stride`, in groups of elements that begin at multiples of 16 bytes.
  ColumnSums(std::int64_t rows, std::int64_t columns, std::int64_t stride)
      : rows_(rows), columns_(columns), packed_(rows_are_packed<T>(stride)) {
    // Some blocks for each of a hundred multiprocessors, and at least four rows for each slice of a block.
    constexpr std::int64_t kBlocks = 1056, kMostSlabs = 256;
    const std::int64_t across = ceil_div(columns, 32 * width());
    const std::int64_t most = std::min<std::int64_t>(kMostSlabs, ceil_div(rows, 4 * kSlices));
    slab_rows_ = ceil_div(rows, std::clamp<std::int64_t>(kBlocks / across, 1, most));
  }

  Bytes workspace() const { return static_cast<Bytes>(slabs() * columns_) * sizeof(float); }

  // sums[c] += sum of column c.
  template <typename Source>
  void enqueue(const char* name, const Source& source, std::byte* workspace, float* sums, cudaStream_t stream) const {
    auto* const partials = reinterpret_cast<float*>(workspace);
    const LaunchShape shape{dim3(ceil_div(columns_, 32 * width()), static_cast<unsigned int>(slabs())), kSumThreads};
    if (packed_) {
      launch(name, slab_sums<kPack<T>, Source>, shape, stream, rows_, columns_, slab_rows_, source, partials);
    } else {
      launch(name, slab_sums<1, Source>, shape, stream, rows_, columns_, slab_rows_, source, partials);
    }
    launch_partial_sums(partials, slabs(), columns_, sums, stream);
  }

 private:
  std::int64_t width() const { return packed_ ? kPack<T> : 1; }
  std::int64_t slabs() const { return ceil_div(rows_, slab_rows_); }

  std::int64_t rows_, columns_, slab_rows_ = 1;
  bool packed_;
};

// A source of the values of an elementwise Body, which it rounds and stores in y.
template <typename Body>
struct StoredSource : Body {
  using T = typename Body::Element;
  explicit StoredSource(const OpView& op) : Body(op) { this->columns = op.input(0).shape[1]; }

  template <int Count>
  __device__ Floats<Count> at(std::int64_t row, std::int64_t column) const {
    const std::int64_t first = row * this->columns + column;
    Floats<Count> values = this->template values<Count>(first);
#pragma unroll
    for (int i = 0; i < Count; ++i) values[i] = rounded<T>(values[i]);
    store_floats(this->y + first, values);
    return values;
  }
};

// The kernel of an op that adds sums over rows to its last output. Source, made from the op when the kernel is, also
// has Element and bind() as the bodies of elementwise.cuh.
template <typename Source>
class ColumnSumsKernel final : public Kernel {
 public:
  ColumnSumsKernel(const Context&, const OpView& op)
      : name_(compiler::name_of(op.kind)), source_(op), sums_(op.input(0).shape[0], op.input(0).shape[1]) {}

  Bytes workspace() const override { return sums_.workspace(); }

  void enqueue(Operands operands, std::byte* workspace, const LaunchParameters* parameters,
               cudaStream_t stream) const override {
    Source source = source_;
    source.bind(operands, parameters);
    sums_.enqueue(name_.c_str(), source, workspace, as<float>(operands.back()), stream);
  }

 private:
  std::string name_;
  Source source_;  // without addresses
  ColumnSums<typename Source::Element> sums_;
};

}  // namespace l2l::device::cuda

// The gradients of layer norm and RMS norm; the fused ops add to dx the gradient that x gets from elsewhere.
#include <algorithm>

#include "device/kernels/common/column_sums.cuh"
#include "device/kernels/cuda_factories.h"
#include "device/kernels/norm.cuh"

namespace l2l::device::cuda {
namespace {

// With n = (x - mean) * inverse (RMS norm: mean = 0) and g = dy * gain: dx = (g - mean(g) - n mean(g n)) * inverse,
// where RMS norm has no mean(g); dgain += sum of dy n, dbias += sum of dy over rows.
template <typename T>
struct NormBackward {
  const T *dy, *x, *gain;
  const T* other;  // added to dx after dx was rounded; may be null
  const float *mean, *inverse;
  T* dx;
  float *dgain, *dbias;  // partial sums: [blocks, hidden]
  std::int64_t rows, hidden;
  float offset;  // RMS norm: the gain is offset + weight

  template <bool kRms>
  __device__ float gain_of(float weight) const {
    return kRms ? offset + weight : weight;
  }

  template <bool kRms>
  __device__ float center(std::int64_t row) const {
    return kRms ? 0.0f : mean[row];
  }

  template <int Count>
  __device__ void store(std::int64_t first, Floats<Count> gradient) const {
    if (other != nullptr) {
      const Floats<Count> more = load_floats<Count>(other + first);
#pragma unroll
      for (int i = 0; i < Count; ++i) gradient[i] = rounded<T>(gradient[i]) + more[i];
    }
    store_floats(dx + first, gradient);
  }
};

// One group's part of a block of kGroups groups: its sums in ascending order of group, by all threads of the block.
template <int kBlock, int kGroups, int kColumns>
__device__ void store_block_sums(const float (&shared)[kGroups][kColumns], std::int64_t columns, float* sums) {
  for (int column = static_cast<int>(threadIdx.x); column < columns; column += kBlock) {
    float total = 0;
#pragma unroll
    for (int group = 0; group < kGroups; ++group) total += shared[group][column];
    sums[column] = total;
  }
}

// A thread's elements of a row, and the row's statistics; zeros behind its end, and where the row is behind the last.
template <typename T, typename Shape>
struct NormRow {
  Pack<T> x[Shape::kPacks] = {}, dy[Shape::kPacks] = {};
  float center = 0, inverse = 0;

  template <bool kRms>
  __device__ static NormRow load(const NormBackward<T>& norm, std::int64_t row, int thread) {
    NormRow loaded;
    if (row >= norm.rows) return loaded;
    loaded.center = norm.template center<kRms>(row);
    loaded.inverse = norm.inverse[row];
#pragma unroll
    for (int p = 0; p < Shape::kPacks; ++p) {
      const int column = (thread + p * Shape::kThreads) * kPack<T>;
      if (column >= norm.hidden) continue;
      loaded.x[p] = load_pack(norm.x + row * norm.hidden + column);
      loaded.dy[p] = load_pack(norm.dy + row * norm.hidden + column);
    }
    return loaded;
  }
};

constexpr int kNormBlock = 256;  // threads, at least

template <typename Shape>
constexpr int kNormBackwardThreads = Shape::kThreads > kNormBlock ? Shape::kThreads : kNormBlock;

// Moves 3 elements of T per element (4 with `other`): x and dy in, dx out. Gain and the sums over rows stay in
// registers, as does the next row, which is on its way while a row is computed; each block writes one row of partial
// sums.
template <typename T, typename Shape, bool kRms>
__global__ void __launch_bounds__(kNormBackwardThreads<Shape>, 512 / kNormBackwardThreads<Shape>)
    norm_backward(NormBackward<T> norm) {
  constexpr int kWidth = kPack<T>, kBlock = kNormBackwardThreads<Shape>, kGroups = kBlock / Shape::kThreads;
  __shared__ Floats<2> sums[2][kBlock / 32];  // in turns: a turn has one barrier
  __shared__ float shared[kGroups > 1 ? kGroups : 1][kGroups > 1 ? Shape::kThreads * Shape::kPacks * kWidth : 1];
  const int group = static_cast<int>(threadIdx.x) / Shape::kThreads;
  const int thread = static_cast<int>(threadIdx.x) % Shape::kThreads;
  const int packs = static_cast<int>(norm.hidden / kWidth);
  const float size = static_cast<float>(norm.hidden);
  Pack<T> gain[Shape::kPacks] = {};
  Floats<kWidth> dgain[Shape::kPacks], dbias[Shape::kPacks];
#pragma unroll
  for (int p = 0; p < Shape::kPacks; ++p) {
    const int pack = thread + p * Shape::kThreads;
    if (pack < packs) gain[p] = load_pack(norm.gain + pack * kWidth);
    dgain[p] = dbias[p] = {};
  }
  const std::int64_t begin = blockIdx.x * kGroups;
  const unsigned int stride = gridDim.x * kGroups;
  using Row = NormRow<T, Shape>;
  Row next = Row::template load<kRms>(norm, begin + group, thread);
  int turn = 0;
  // All groups of a block take as many turns: they meet at barriers.
  for (std::int64_t first = begin; first < norm.rows; first += stride, turn ^= 1) {
    const std::int64_t row = first + group;
    const bool valid = row < norm.rows;
    const Row now = next;
    next = Row::template load<kRms>(norm, row + stride, thread);
    Floats<2> total{};  // of g, of g n
#pragma unroll
    for (int p = 0; p < Shape::kPacks; ++p) {
      if (!valid || thread + p * Shape::kThreads >= packs) continue;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        const float gradient = widen(now.dy[p].elements[i]);
        const float n = (widen(now.x[p].elements[i]) - now.center) * now.inverse;
        const float g = gradient * norm.template gain_of<kRms>(widen(gain[p].elements[i]));
        dgain[p][i] += gradient * n;
        dbias[p][i] += gradient;
        total[0] += g;
        total[1] += g * n;
      }
    }
    total = group_sums<Shape::kThreads>(total, sums[turn]);
    const float mean_g = kRms ? 0.0f : total[0] / size, projection = total[1] / size;
#pragma unroll
    for (int p = 0; p < Shape::kPacks; ++p) {
      const int pack = thread + p * Shape::kThreads;
      if (!valid || pack >= packs) continue;
      Floats<kWidth> gradient;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        const float g = widen(now.dy[p].elements[i]) * norm.template gain_of<kRms>(widen(gain[p].elements[i]));
        const float n = (widen(now.x[p].elements[i]) - now.center) * now.inverse;
        gradient[i] = __fmul_rn(g - mean_g - n * projection, now.inverse);
      }
      norm.store(row * norm.hidden + pack * kWidth, gradient);
    }
  }
  const auto leave = [&](const Floats<kWidth>(&own)[Shape::kPacks], float* partials) {
    if constexpr (kGroups == 1) {
#pragma unroll
      for (int p = 0; p < Shape::kPacks; ++p) {
        const int pack = thread + p * Shape::kThreads;
        if (pack < packs) store_floats(partials + blockIdx.x * norm.hidden + pack * kWidth, own[p]);
      }
    } else {
#pragma unroll
      for (int p = 0; p < Shape::kPacks; ++p) {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) shared[group][(thread + p * Shape::kThreads) * kWidth + i] = own[p][i];
      }
      __syncthreads();
      store_block_sums<kBlock>(shared, norm.hidden, partials + blockIdx.x * norm.hidden);
      __syncthreads();
    }
  };
  leave(dgain, norm.dgain);
  if constexpr (!kRms) leave(dbias, norm.dbias);
}

// dx of rows of any width (whole groups of Count): a block per row, which it reads twice.
template <typename T, int Count, bool kRms>
__global__ void __launch_bounds__(kNormBlock) norm_backward_any(NormBackward<T> norm) {
  __shared__ Floats<2> sums[kNormBlock / 32];
  const std::int64_t row = blockIdx.x, begin = row * norm.hidden;
  const float center = norm.template center<kRms>(row), inverse = norm.inverse[row];
  const float size = static_cast<float>(norm.hidden);
  Floats<2> total{};  // of g, of g n
  const auto parts = [&](std::int64_t column, Floats<Count>& g, Floats<Count>& n) {
    g = load_floats<Count>(norm.dy + begin + column);
    n = load_floats<Count>(norm.x + begin + column);
    const Floats<Count> gain = load_floats<Count>(norm.gain + column);
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      g[i] *= norm.template gain_of<kRms>(gain[i]);
      n[i] = (n[i] - center) * inverse;
    }
  };
  const auto each_group = [&](const auto& visit) {
    for (std::int64_t column = threadIdx.x * Count; column < norm.hidden; column += kNormBlock * Count) {
      Floats<Count> g, n;
      parts(column, g, n);
      visit(column, g, n);
    }
  };
  each_group([&](std::int64_t, const Floats<Count>& g, const Floats<Count>& n) {
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      total[0] += g[i];
      total[1] += g[i] * n[i];
    }
  });
  total = group_sums<kNormBlock>(total, sums);
  const float mean_g = kRms ? 0.0f : total[0] / size, projection = total[1] / size;
  each_group([&](std::int64_t column, Floats<Count> g, const Floats<Count>& n) {
#pragma unroll
    for (int i = 0; i < Count; ++i) g[i] = __fmul_rn(g[i] - mean_g - n[i] * projection, inverse);
    norm.store(begin + column, g);
  });
}

// dy n, or dy, for sums over rows.
template <typename T, bool kRms, bool kGain>
struct NormParameterGradient {
  NormBackward<T> norm;

  __device__ void prepare() {}
  template <int Count>
  __device__ Floats<Count> at(std::int64_t row, std::int64_t column) const {
    const std::int64_t first = row * norm.hidden + column;
    Floats<Count> gradient = load_floats<Count>(norm.dy + first);
    if constexpr (kGain) {
      const float center = norm.template center<kRms>(row), inverse = norm.inverse[row];
      const Floats<Count> x = load_floats<Count>(norm.x + first);
#pragma unroll
      for (int i = 0; i < Count; ++i) gradient[i] *= (x[i] - center) * inverse;
    }
    return gradient;
  }
};

// dy, x, gain, (mean), inverse, (other) -> dx, (dgain (+=), (dbias (+=))). The sums over rows of parameters that are
// frozen stay in the workspace.
template <typename T, bool kRms>
class NormBackwardKernel final : public Kernel {
 public:
  NormBackwardKernel(const Context& context, const OpView& op)
      : name_(compiler::name_of(op.kind)),
        inputs_(op.inputs.size()),
        trained_(op.outputs.size() - 1),
        rows_(op.input(1).shape[0]),
        hidden_(op.input(1).shape[1]),
        offset_(op.attributes.unit_offset ? 1.0f : 0.0f),
        in_registers_(rows_are_packed<T>(hidden_) && with_shape([](auto) {})),
        sums_(rows_, hidden_) {
    if (in_registers_) with_shape([&](auto shape) { blocks_ = blocks_of(context, shape); });
  }

  Bytes workspace() const override {
    if (!in_registers_) return sums_.workspace();
    return static_cast<Bytes>(blocks_ * hidden_) * sizeof(float) * (kRms ? 1 : 2);
  }

  void enqueue(Operands operands, std::byte* workspace, const LaunchParameters*, cudaStream_t stream) const override {
    NormBackward<T> norm = problem(operands);
    float* const dgain = trained_ > 0 ? as<float>(operands[inputs_ + 1]) : nullptr;
    float* const dbias = trained_ > 1 ? as<float>(operands[inputs_ + 2]) : nullptr;
    if (!in_registers_) return enqueue_any(norm, workspace, dgain, dbias, stream);
    norm.dgain = as<float>(workspace);
    norm.dbias = norm.dgain + blocks_ * hidden_;
    with_shape([&](auto shape) {
      using Shape = decltype(shape);
      launch(name_.c_str(), norm_backward<T, Shape, kRms>,
             {static_cast<unsigned int>(blocks_), kNormBackwardThreads<Shape>}, stream, norm);
    });
    if (dgain != nullptr) launch_partial_sums(norm.dgain, blocks_, hidden_, dgain, stream);
    if (dbias != nullptr) launch_partial_sums(norm.dbias, blocks_, hidden_, dbias, stream);
  }

 private:
  static constexpr std::size_t kOwnInputs = kRms ? 4 : 5;  // without `other`

  // Rows of 16-bit types up to 512, 2048 and 8192 columns, f32 up to half of that: more sums do not fit the registers.
  template <typename Run>
  bool with_shape(const Run& run) const {
    return with_row_shape<RowShape<32, 2>, RowShape<128, 2>, RowShape<512, 2>>(hidden_ / kPack<T>, run);
  }

  // Two blocks for each multiprocessor; fewer when there are not rows enough.
  template <typename Shape>
  std::int64_t blocks_of(const Context& context, Shape) const {
    const std::int64_t most = 2 * std::max(1, context.multiprocessors);
    return std::min<std::int64_t>(most, ceil_div(rows_, kNormBackwardThreads<Shape> / Shape::kThreads));
  }

  NormBackward<T> problem(Operands operands) const {
    NormBackward<T> norm{};
    norm.dy = as<T>(operands[0]);
    norm.x = as<T>(operands[1]);
    norm.gain = as<T>(operands[2]);
    if (!kRms) norm.mean = as<float>(operands[3]);
    norm.inverse = as<float>(operands[kRms ? 3 : 4]);
    if (inputs_ > kOwnInputs) norm.other = as<T>(operands[kOwnInputs]);
    norm.dx = as<T>(operands[inputs_]);
    norm.rows = rows_;
    norm.hidden = hidden_;
    norm.offset = offset_;
    return norm;
  }

  void enqueue_any(const NormBackward<T>& norm, std::byte* workspace, float* dgain, float* dbias,
                   cudaStream_t stream) const {
    const LaunchShape shape{static_cast<unsigned int>(rows_), kNormBlock};
    if (rows_are_packed<T>(hidden_)) {
      launch(name_.c_str(), norm_backward_any<T, kPack<T>, kRms>, shape, stream, norm);
    } else {
      launch(name_.c_str(), norm_backward_any<T, 1, kRms>, shape, stream, norm);
    }
    if (dgain != nullptr) {
      sums_.enqueue(name_.c_str(), NormParameterGradient<T, kRms, true>{norm}, workspace, dgain, stream);
    }
    if (dbias != nullptr) {
      sums_.enqueue(name_.c_str(), NormParameterGradient<T, kRms, false>{norm}, workspace, dbias, stream);
    }
  }

  std::string name_;     // of the op, in errors
  std::size_t inputs_;   // with or without `other`
  std::size_t trained_;  // parameters
  std::int64_t rows_, hidden_;
  float offset_;
  bool in_registers_;
  ColumnSums<T> sums_;
  std::int64_t blocks_ = 1;
};

template <typename T>
using LayerNormBackward = NormBackwardKernel<T, false>;
template <typename T>
using RmsNormBackward = NormBackwardKernel<T, true>;

}  // namespace

const Factory make_layer_norm_backward = make_for_input<LayerNormBackward>;
const Factory make_layer_norm_backward_add = make_for_input<LayerNormBackward>;
const Factory make_rms_norm_backward = make_for_input<RmsNormBackward>;
const Factory make_rms_norm_backward_add = make_for_input<RmsNormBackward>;

}  // namespace l2l::device::cuda

#include <cmath>
#include <numbers>

#include "device/kernels/common/floats.cuh"
#include "device/kernels/common/launch.cuh"
#include "device/kernels/common/operands.h"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

constexpr int kMostPairs = 256;  // of a head
constexpr int kRotaryThreads = 256;

// Turns per place, of each pair; negative: turns back.
struct Frequencies {
  double turns[kMostPairs];
};

template <typename T>
struct RotaryProblem {
  const T* x;
  const std::int32_t* positions;  // of the rows; null: their places in their sequences
  T* y;
  std::int64_t rows, columns, sequence;
  int turned, heads, half;  // heads that are turned, of all; pairs of a head
  int block_rows;
  float magnitude;  // of the rotated elements
};

// A block takes block_rows rows: first their sines and cosines, which serve all heads, then groups of Count pairs.
// Moves 2 elements of T per element. Angles are formed and reduced to half a turn in f64.
template <typename T, int Count>
__global__ void __launch_bounds__(kRotaryThreads) rotary(RotaryProblem<T> problem, Frequencies frequencies) {
  __shared__ float cosines[kMostPairs], sines[kMostPairs];
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * problem.block_rows;
  const int rows = static_cast<int>(min(static_cast<std::int64_t>(problem.block_rows), problem.rows - begin));
  for (int i = static_cast<int>(threadIdx.x); i < rows * problem.half; i += kRotaryThreads) {
    const std::int64_t row = begin + i / problem.half;
    const std::int64_t place = problem.positions != nullptr ? problem.positions[row] : row % problem.sequence;
    const double turns = static_cast<double>(place) * frequencies.turns[i % problem.half];
    const auto angle = static_cast<float>((turns - rint(turns)) * (2 * std::numbers::pi));
    cosines[i] = problem.magnitude * cosf(angle);
    sines[i] = problem.magnitude * sinf(angle);
  }
  __syncthreads();
  const int row_groups = problem.heads * (problem.half / Count);
  for (int group = static_cast<int>(threadIdx.x); group < rows * row_groups; group += kRotaryThreads) {
    const int row = group / row_groups, within = group - row * row_groups;
    const int head = within / (problem.half / Count), pair = (within - head * (problem.half / Count)) * Count;
    const std::int64_t first = (begin + row) * problem.columns + head * 2 * problem.half + pair;
    Floats<Count> a = load_floats<Count>(problem.x + first), b = load_floats<Count>(problem.x + first + problem.half);
    if (head < problem.turned) {
#pragma unroll
      for (int i = 0; i < Count; ++i) {
        const float cosine = cosines[row * problem.half + pair + i], sine = sines[row * problem.half + pair + i];
        const float turned = a[i] * cosine - b[i] * sine;
        b[i] = b[i] * cosine + a[i] * sine;
        a[i] = turned;
      }
    }
    store_floats(problem.y + first, a);
    store_floats(problem.y + first + problem.half, b);
  }
}

template <typename T>
class Rotary final : public Kernel {
 public:
  Rotary(const Context&, const OpView& op) {
    const compiler::Value& x = op.input(0);
    const int kv_heads = compiler::kv_heads(op.attributes);
    problem_.rows = x.shape[0];
    problem_.columns = x.shape[1];
    problem_.sequence = op.attributes.sequence;
    problem_.turned = op.attributes.heads + kv_heads;
    problem_.heads = problem_.turned + kv_heads;
    problem_.half = static_cast<int>(problem_.columns / problem_.heads / 2);
    if (problem_.half > kMostPairs) {
      throw BadInput("heads of " + std::to_string(2 * problem_.half) + " elements; the CUDA kernel turns up to " +
                     std::to_string(2 * kMostPairs));
    }
    problem_.block_rows = kMostPairs / problem_.half < 4 ? kMostPairs / problem_.half : 4;
    problem_.magnitude = op.attributes.rotary_scaling.magnitude;
    const std::vector<double> frequencies = compiler::rotary_frequencies(op.attributes, problem_.half);
    for (std::size_t pair = 0; pair < frequencies.size(); ++pair) {
      frequencies_.turns[pair] = (op.attributes.inverse ? -1 : 1) * frequencies[pair] / (2 * std::numbers::pi);
    }
  }

  void enqueue(Operands operands, std::byte*, const LaunchParameters*, cudaStream_t stream) const override {
    RotaryProblem<T> problem = problem_;
    problem.x = as<T>(operands[0]);
    problem.positions = operands.size() > 2 ? as<std::int32_t>(operands[1]) : nullptr;
    problem.y = as<T>(operands.back());
    const LaunchShape shape{ceil_div(problem.rows, problem.block_rows), kRotaryThreads};
    if (problem.half % kPack<T> == 0) {
      launch("rotary", rotary<T, kPack<T>>, shape, stream, problem, frequencies_);
    } else {
      launch("rotary", rotary<T, 1>, shape, stream, problem, frequencies_);
    }
  }

 private:
  RotaryProblem<T> problem_{};
  Frequencies frequencies_{};
};

}  // namespace

const Factory make_rotary = make_for_input<Rotary>;

}  // namespace l2l::device::cuda

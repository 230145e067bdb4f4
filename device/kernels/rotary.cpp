#include <cmath>
#include <numbers>
#include <vector>

#include "device/kernels/common/operands.h"
#include "device/kernels/common/partition.h"
#include "device/kernels/convert.h"
#include "device/kernels/factories.h"
#include "device/kernels/tokens.h"

namespace l2l::device::kernels {
namespace {

constexpr std::int64_t kAngleCost = 64;  // of a pair, in elements that are read and written

// Rotary positions (Su et al., "RoFormer", 2021) in the pairing of Llama's Hugging Face files: elements j and
// j + head_dim / 2 of a head of queries or keys are turned by place * base^(-2j / head_dim). The angle is formed and
// reduced to one turn in f64; its sine and cosine are f32.
template <typename T>
class Rotary final : public Kernel {
 public:
  Rotary(const OpView& op)
      : rows_(op.output(0).shape[0]),
        width_(op.output(0).shape[1]),
        sequence_(op.attributes.sequence),
        places_(op.attributes.positions > 0 ? op.attributes.positions : sequence_),
        turned_(op.attributes.heads + compiler::kv_heads(op.attributes)),
        half_(width_ / (turned_ + compiler::kv_heads(op.attributes)) / 2),
        magnitude_(op.attributes.rotary_scaling.magnitude),
        frequencies_(compiler::rotary_frequencies(op.attributes, half_)),
        positions_(op.inputs.size() > 1) {
    op.require_dtype(op.output(0).dtype, {0});
    for (double& frequency : frequencies_) frequency = op.attributes.inverse ? -frequency : frequency;
  }

  // Angles of one place for each thread; where rows have positions of their own, of all places, unless these are more.
  Bytes workspace(int threads) const override {
    const bool all = positions_ && places_ <= rows_;
    return slot_bytes() * (all ? static_cast<Bytes>(places_) : static_cast<Bytes>(threads));
  }

  // A place at a time, whose angles serve all its rows and heads.
  void run(Operands operands, std::byte* workspace, const LaunchParameters&, Workers& workers) const override {
    if (positions_ && places_ > rows_) return run_few_rows(operands, workspace, workers);
    if (positions_) return run_rows(operands, workspace, workers);
    const Partition blocks = row_blocks(sequence_, rows_ / sequence_ * width_);
    workers.parallel_for(blocks.count(), [&](std::int64_t block, int slot) {
      float* const cosines = as<float>(workspace + slot_bytes() * static_cast<Bytes>(slot));
      float* const sines = cosines + half_;
      for (std::int64_t place = blocks.begin(block); place < blocks.end(block); ++place) {
        angles_of(place, cosines, sines);
        for (std::int64_t row = place; row < rows_; row += sequence_) {
          turn(as<T>(operands[0]) + row * width_, cosines, sines, as<T>(operands[1]) + row * width_);
        }
      }
    });
  }

 private:
  // Fewer rows than places: the angles of each.
  void run_few_rows(Operands operands, std::byte* workspace, Workers& workers) const {
    const std::int32_t* const positions = as<const std::int32_t>(operands[1]);
    const Partition rows = row_blocks(rows_, width_ + kAngleCost * half_);
    workers.parallel_for(rows.count(), [&](std::int64_t block, int slot) {
      float* const cosines = as<float>(workspace + slot_bytes() * static_cast<Bytes>(slot));
      for (std::int64_t row = rows.begin(block); row < rows.end(block); ++row) {
        angles_of(place_of("rotary", positions, row, sequence_, places_), cosines, cosines + half_);
        turn(as<T>(operands[0]) + row * width_, cosines, cosines + half_, as<T>(operands[2]) + row * width_);
      }
    });
  }

  // Each row has a position of its own, one of few.
  void run_rows(Operands operands, std::byte* workspace, Workers& workers) const {
    const auto cosines_of = [&](std::int64_t place) {
      return as<float>(workspace + slot_bytes() * static_cast<Bytes>(place));
    };
    const Partition places = row_blocks(places_, kAngleCost * half_);
    workers.parallel_for(places.count(), [&](std::int64_t block, int) {
      for (std::int64_t place = places.begin(block); place < places.end(block); ++place) {
        angles_of(place, cosines_of(place), cosines_of(place) + half_);
      }
    });
    const std::int32_t* const positions = as<const std::int32_t>(operands[1]);
    const Partition rows = row_blocks(rows_, width_);
    workers.parallel_for(rows.count(), [&](std::int64_t block, int) {
      for (std::int64_t row = rows.begin(block); row < rows.end(block); ++row) {
        const float* const cosines = cosines_of(place_of("rotary", positions, row, sequence_, places_));
        turn(as<T>(operands[0]) + row * width_, cosines, cosines + half_, as<T>(operands[2]) + row * width_);
      }
    });
  }

  Bytes slot_bytes() const { return align_up(static_cast<Bytes>(2 * half_) * sizeof(float), 64); }

  void angles_of(std::int64_t place, float* cosines, float* sines) const {
    for (std::int64_t j = 0; j < half_; ++j) {
      const double angle =
          std::remainder(static_cast<double>(place) * frequencies_[static_cast<std::size_t>(j)], 2 * std::numbers::pi);
      cosines[j] = static_cast<float>(magnitude_ * std::cos(angle));
      sines[j] = static_cast<float>(magnitude_ * std::sin(angle));
    }
  }

  void turn(const T* x, const float* cosines, const float* sines, T* y) const {
    for (std::int64_t head = 0; head < turned_; ++head, x += 2 * half_, y += 2 * half_) {
#pragma omp simd
      for (std::int64_t j = 0; j < half_; ++j) {
        const float a = widen(x[j]), b = widen(x[j + half_]);
        y[j] = narrow<T>(a * cosines[j] - b * sines[j]);
        y[j + half_] = narrow<T>(b * cosines[j] + a * sines[j]);
      }
    }
    std::copy(x, x + width_ - turned_ * 2 * half_, y);
  }

  std::int64_t rows_, width_, sequence_;
  std::int64_t places_;  // different positions
  std::int64_t turned_;  // heads of queries and keys
  std::int64_t half_;    // of a head
  double magnitude_;     // of the rotated elements
  std::vector<double> frequencies_;
  bool positions_;  // an operand
};

}  // namespace

const Factory make_rotary = make_for_output<Rotary>;

}  // namespace l2l::device::kernels

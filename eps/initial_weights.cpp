#include "eps/initial_weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <span>
#include <vector>

#include "core/philox.h"

namespace l2l::eps {
namespace {

// Two independent standard normals from two words. The first uniform number lies in (0, 1], so that its logarithm
// exists.
std::array<float, 2> normal_pair(std::uint32_t first, std::uint32_t second) {
  const float uniform = (static_cast<float>(first) + 0.5f) * 0x1p-32f;
  const float radius = std::sqrt(-2 * std::log(uniform));
  const float angle = 2 * std::numbers::pi_v<float> * to_uniform(second);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

// Elements [first, first + size) of a parameter; `first` is a multiple of 4.
void draw_normals(const RngKey& key, float deviation, std::int64_t first, std::span<float> destination) {
  for (std::size_t i = 0; i < destination.size(); i += 4) {
    const PhiloxBlock words = philox(key, static_cast<std::uint32_t>((first + static_cast<std::int64_t>(i)) / 4));
    const auto [a, b] = normal_pair(words[0], words[1]);
    const auto [c, d] = normal_pair(words[2], words[3]);
    const std::array<float, 4> normals = {a, b, c, d};
    const std::size_t count = std::min<std::size_t>(4, destination.size() - i);
    for (std::size_t k = 0; k < count; ++k) destination[i + k] = deviation * normals[k];
  }
}

// The same, between -bound and bound.
void draw_uniform(const RngKey& key, float bound, std::int64_t first, std::span<float> destination) {
  for (std::size_t i = 0; i < destination.size(); ++i) {
    const std::int64_t element = first + static_cast<std::int64_t>(i);
    const PhiloxBlock words = philox(key, static_cast<std::uint32_t>(element / 4));
    destination[i] = bound * (2 * to_uniform(words[static_cast<std::size_t>(element % 4)]) - 1);
  }
}

void draw(const ParameterSpec& parameter, const RngKey& key, std::int64_t first, std::span<float> destination) {
  switch (parameter.initial) {
    case Initial::zeros:
      std::ranges::fill(destination, 0.0f);
      break;
    case Initial::ones:
      std::ranges::fill(destination, 1.0f);
      break;
    case Initial::uniform:
      draw_uniform(key, parameter.deviation, first, destination);
      break;
    case Initial::normal:
      draw_normals(key, parameter.deviation, first, destination);
      break;
  }
}

}  // namespace

void set_initial_weights(GroupMemory& memory, const GroupSpec& group, std::uint64_t seed, const WeightSource* source,
                         Workers& workers) {
  // A source reads a file, in larger pieces.
  const std::int64_t piece = source == nullptr ? kChunk : kBlock;
  std::vector<float> buffers(static_cast<std::size_t>(workers.threads() * piece));
  for (std::size_t index = 0; index < group.parameters.size(); ++index) {
    const ParameterSpec& parameter = group.parameters[index];
    const RngKey key{.seed = seed, .layer = group.id, .op = static_cast<std::uint32_t>(index)};
    const std::int64_t elements = parameter.shape.elements();
    workers.parallel_for((elements + piece - 1) / piece, [&](std::int64_t block, int slot) {
      const std::int64_t first = block * piece;
      const std::span<float> values(buffers.data() + slot * piece,
                                    static_cast<std::size_t>(std::min(piece, elements - first)));
      if (source == nullptr || !source->read(parameter, first, values)) draw(parameter, key, first, values);
      memory.write_master(index, first, values);
    });
  }
}

}  // namespace l2l::eps

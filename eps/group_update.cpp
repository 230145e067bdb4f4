#include "eps/group_update.h"

#include <algorithm>

#include "core/fault_point.h"

namespace l2l::eps {
namespace {

using optimizers::AdamWSettings;
using optimizers::LambSettings;
using optimizers::LambSquares;
using optimizers::SgdSettings;

// The settings with and without weight decay.
template <typename Settings>
class DecayOf {
 public:
  explicit DecayOf(const Settings& settings) : with_(settings), without_(settings) { without_.weight_decay = 0; }
  const Settings& of(const Segment& segment) const { return segment.decay ? with_ : without_; }

 private:
  Settings with_, without_;
};

struct Target {
  GroupMemory& memory;
  const Contributions& contributions;
  float factor;
  Workers& workers;
  UpdateWorkspace& workspace;

  // Calls function(block, begin, count, segment) for every chunk, blocks on the workers.
  template <typename F>
  void for_each_chunk(const F& function) const {
    workers.parallel_for(memory.blocks(), [&](std::int64_t block, int) {
      memory.for_each_chunk(block, [&](std::int64_t begin, std::size_t count, std::size_t segment) {
        function(block, begin, count, segment);
      });
    });
  }
};

void step(const AdamWSettings& settings, std::span<float> master, const GroupMemory& memory, std::int64_t begin,
          std::span<const float> gradient) {
  const std::size_t count = master.size();
  optimizers::adamw(master, memory.moment1(begin, count), memory.moment2(begin, count), gradient, settings);
}

void step(const SgdSettings& settings, std::span<float> master, const GroupMemory& memory, std::int64_t begin,
          std::span<const float> gradient) {
  optimizers::sgd(master, memory.moment1(begin, master.size()), gradient, settings);
}

// Element-wise optimizers.
template <typename Settings>
void update(const Target& target, const Settings& settings) {
  GroupMemory& memory = target.memory;
  const DecayOf<Settings> choice(settings);
  target.for_each_chunk([&](std::int64_t, std::int64_t begin, std::size_t count, std::size_t segment) {
    ChunkBuffer gradients, masters;
    const std::span<float> master = memory.open_master(begin, count, masters);
    step(choice.of(memory.segments()[segment]), master, memory, begin,
         gradient(target.contributions, target.factor, begin, count, gradients));
    memory.close_master(begin, master);
  });
}

// Adds the blocks of a segment to `sum`, in ascending order.
void add_blocks(const Segment& segment, std::span<const LambSquares> parts, LambSquares& sum) {
  for (std::int64_t block = segment.begin / kBlock; block * kBlock < segment.end; ++block) {
    const LambSquares& part = parts[static_cast<std::size_t>(block)];
    sum.weights += part.weights;
    sum.direction += part.direction;
  }
}

// One ratio per parameter, from the sums over its segments in ascending order.
void make_ratios(const GroupMemory& memory, UpdateWorkspace& workspace) {
  const std::vector<Segment>& segments = memory.segments();
  for (std::size_t first = 0, end = 0; first < segments.size(); first = end) {
    LambSquares sum;
    for (; end < segments.size() && segments[end].parameter == segments[first].parameter; ++end) {
      add_blocks(segments[end], std::span(workspace.squares).subspan(end), sum);
    }
    workspace.ratios[segments[first].parameter] = fault_point("eps.no_trust_ratio") ? 1 : optimizers::trust_ratio(sum);
  }
}

void update(const Target& target, const LambSettings& settings) {
  GroupMemory& memory = target.memory;
  UpdateWorkspace& workspace = target.workspace;
  const DecayOf<LambSettings> choice(settings);
  std::fill(workspace.squares.begin(), workspace.squares.end(), LambSquares());
  target.for_each_chunk([&](std::int64_t block, std::int64_t begin, std::size_t count, std::size_t segment) {
    ChunkBuffer gradients, masters;
    const LambSquares squares = optimizers::lamb_moments(
        memory.open_master(begin, count, masters), memory.moment1(begin, count), memory.moment2(begin, count),
        gradient(target.contributions, target.factor, begin, count, gradients), choice.of(memory.segments()[segment]));
    LambSquares& sum = workspace.squares[static_cast<std::size_t>(block) + segment];
    sum.weights += squares.weights;
    sum.direction += squares.direction;
  });
  make_ratios(memory, workspace);
  target.for_each_chunk([&](std::int64_t, std::int64_t begin, std::size_t count, std::size_t segment) {
    ChunkBuffer masters;
    const std::span<float> master = memory.open_master(begin, count, masters);
    optimizers::lamb_apply(master, memory.moment1(begin, count), memory.moment2(begin, count),
                           workspace.ratios[memory.segments()[segment].parameter],
                           choice.of(memory.segments()[segment]));
    memory.close_master(begin, master);
  });
}

}  // namespace

void UpdateWorkspace::reserve(const GroupMemory& memory, const optimizers::Optimizer& optimizer) {
  if (!std::holds_alternative<LambSettings>(optimizer)) return;
  const std::size_t segments = memory.segments().size();
  squares.resize(std::max(squares.size(), static_cast<std::size_t>(memory.blocks()) + segments));
  ratios.resize(std::max(ratios.size(), segments));
}

void update_group(GroupMemory& memory, const Contributions& contributions, float factor,
                  const optimizers::Optimizer& optimizer, Workers& workers, UpdateWorkspace& workspace) {
  const Target target{memory, contributions, factor, workers, workspace};
  std::visit([&](const auto& settings) { update(target, settings); }, optimizer);
}

}  // namespace l2l::eps

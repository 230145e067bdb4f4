#include "eps/group_update.h"

#include <algorithm>
#include <array>
#include <vector>

#include "core/fault_point.h"
#include "optimizers/kernels.h"

namespace l2l::eps {
namespace {

using optimizers::AdamWConstants;
using optimizers::AdamWSettings;
using optimizers::Kernels;
using optimizers::LambConstants;
using optimizers::LambSettings;
using optimizers::LambSquares;
using optimizers::SgdSettings;
using optimizers::Streams;

// Elements of a tensor whose state stays in a worker's second-level cache, where LAMB's second pass finds it.
constexpr std::int64_t kTensorInCache = 128 * 1024;

// A kernel's arguments by the rule of a block.
template <typename Constants, typename Settings>
class ByRule {
 public:
  ByRule(const Settings& settings, std::span<const UpdateRule> rules) {
    for (const UpdateRule& rule : rules) {
      Settings own = settings;
      own.learning_rate *= rule.rate;
      own.weight_decay = rule.weight_decay.value_or(own.weight_decay);
      constants_.push_back(Constants(own));
    }
  }
  const Constants& of(const Block& block) const { return constants_[block.rule]; }

 private:
  std::vector<Constants> constants_;
};

struct Target {
  GroupMemory& memory;
  const Contributions& contributions;
  float factor;
  std::uint64_t count;
  int microbatches;
  Workers& workers;
  UpdateWorkspace& workspace;
  const Kernels& kernels = optimizers::kernels();
  optimizers::MasterFormat master = memory.master_format();
  optimizers::MomentFormats moments = memory.moment_formats();

  // Calls function(streams, type of the gradients) for every run of a block.
  template <typename F>
  void for_each_run(const Block& block, const F& function) const {
    for_each_piece(block, [&](const Block& piece) { runs_of(piece, function); });
  }
  // Calls function(piece) for pieces of a block, ascending, and compares the checksums of what it finds there with
  // those of the last update; what it leaves has new ones. Each piece is summed, changed and summed again while it is
  // in the caches. Throws StateMismatch after the last piece. Without checksums there is one piece.
  template <typename F>
  void for_each_piece(const Block& block, const F& function) const {
    if (!memory.verifies()) return function(block);
    StateLanes before, after;
    Block piece = block;
    for (; piece.begin < block.end; piece.begin = piece.end) {
      piece.end = std::min(piece.begin + kSumPiece, block.end);
      memory.add(before, block, piece.begin, piece.end);
      function(piece);
      memory.add(after, block, piece.begin, piece.end);
    }
    memory.check(block, before.sums());
    memory.seal(block, after.sums());
  }
  template <typename F>
  void runs_of(const Block& block, const F& function) const {
    GradientRuns runs(contributions, block);
    while (runs.next()) {
      Streams streams = memory.streams(block, runs.begin(), runs.count(), count);
      streams.factor = factor;
      runs.enter(streams);
      function(streams, runs.type());
    }
  }
  bool is_statistic(const Block& block) const { return memory.rule(block).statistic > 0; }
  // Of a statistic, which the optimizer does not touch.
  void update_statistic(const Block& block) const {
    const std::int64_t first_of_parameter = memory.gradient_begin(block.parameter);
    const float share = memory.rule(block).statistic;
    const std::size_t devices = contributions.parts.size() * contributions.summed;
    const auto measures = static_cast<float>(devices * static_cast<std::size_t>(microbatches));
    for_each_piece(block, [&](const Block& piece) {
      GradientRuns runs(contributions, piece);
      while (runs.next()) {
        for (std::int64_t begin = 0; begin < runs.count(); begin += kRunUnit) {
          std::array<float, kRunUnit> values, measured;
          const auto count = static_cast<std::size_t>(std::min(kRunUnit, runs.count() - begin));
          const std::int64_t first = runs.begin() + begin - first_of_parameter;
          runs.sum(begin, std::span(measured).first(count));
          memory.read_master(block.parameter, first, std::span(values).first(count));
          for (std::size_t i = 0; i < count; ++i) values[i] += share * (measured[i] / measures - values[i]);
          memory.write_master(block.parameter, first, std::span(values).first(count));
        }
      }
    });
  }
  // Calls function(block) for every block of the optimizer's, on the workers.
  template <typename F>
  void for_each_block(const F& function) const {
    const std::span<const BlockRange> jobs = memory.jobs();
    workers.parallel_for(static_cast<std::int64_t>(jobs.size()), [&](std::int64_t job, int) {
      const BlockRange range = jobs[static_cast<std::size_t>(job)];
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        const Block& block = memory.block(i);
        is_statistic(block) ? update_statistic(block) : function(block);
      }
    });
  }
};

void update(const Target& target, const AdamWSettings& settings) {
  const ByRule<AdamWConstants, AdamWSettings> choice(settings, target.memory.rules());
  target.for_each_block([&](const Block& block) {
    target.for_each_run(block, [&](const Streams& streams, DType type) {
      target.kernels.adamw_of(type, target.master, target.moments)(streams, choice.of(block));
    });
  });
}

void update(const Target& target, const SgdSettings& settings) {
  const ByRule<SgdSettings, SgdSettings> choice(settings, target.memory.rules());
  target.for_each_block([&](const Block& block) {
    target.for_each_run(block, [&](const Streams& streams, DType type) {
      target.kernels.sgd_of(type, target.master, target.moments.first)(streams, choice.of(block));
    });
  });
}

// Runs both passes of LAMB tensor by tensor. Sums are taken block by block in ascending order; the second pass goes
// through the blocks backwards, so that it begins with what the first one left in the caches.
class Lamb {
 public:
  Lamb(const Target& target, const LambSettings& settings)
      : target_(target), choice_(settings, target.memory.rules()) {}

  void run() const {
    const std::vector<BlockRange>& batches = make_batches();
    target_.workers.parallel_for(static_cast<std::int64_t>(batches.size()), [&](std::int64_t batch, int) {
      const BlockRange range = batches[static_cast<std::size_t>(batch)];
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        if (is_small(i) && !is_statistic(i)) update_small(parameter(i));
      }
    });
    for (std::int64_t i = 0; i < parameters(); ++i) {
      if (is_statistic(i)) {
        for (std::int64_t block = parameter(i).begin; block < parameter(i).end; ++block) {
          target_.update_statistic(target_.memory.block(block));
        }
      } else if (!is_small(i)) {
        update_large(parameter(i));
      }
    }
  }

 private:
  std::int64_t parameters() const { return static_cast<std::int64_t>(target_.memory.parameters().size()); }
  BlockRange parameter(std::int64_t i) const { return target_.memory.parameters()[static_cast<std::size_t>(i)]; }
  std::int64_t elements(std::int64_t i) const {
    const BlockRange blocks = parameter(i);
    if (blocks.begin == blocks.end) return 0;
    return target_.memory.block(blocks.end - 1).end - target_.memory.block(blocks.begin).begin;
  }
  bool is_statistic(std::int64_t i) const {
    const BlockRange blocks = parameter(i);
    return blocks.begin < blocks.end && target_.is_statistic(target_.memory.block(blocks.begin));
  }
  bool is_small(std::int64_t i) const { return elements(i) <= kTensorInCache; }

  // Jobs of small tensors, together at most kTensorInCache elements each.
  const std::vector<BlockRange>& make_batches() const {
    std::vector<BlockRange>& batches = target_.workspace.batches;
    batches.clear();
    std::int64_t together = 0;
    for (std::int64_t i = 0; i < parameters(); ++i) {
      if (!is_small(i)) continue;
      if (batches.empty() || together + elements(i) > kTensorInCache) {
        batches.push_back({i, i});
        together = 0;
      }
      batches.back().end = i + 1;
      together += elements(i);
    }
    return batches;
  }

  void first_pass(std::int64_t index) const {
    const Block& block = target_.memory.block(index);
    optimizers::LambLanes lanes;
    target_.for_each_run(block, [&](const Streams& streams, DType type) {
      target_.kernels.lamb_moments_of(type, target_.master, target_.moments)(streams, choice_.of(block), lanes);
    });
    target_.workspace.squares[static_cast<std::size_t>(index)] = lanes.sum();
  }
  void second_pass(std::int64_t index, double ratio) const {
    const Block& block = target_.memory.block(index);
    const LambConstants& constants = choice_.of(block);
    target_.for_each_piece(block, [&](const Block& piece) {
      target_.kernels.lamb_apply_of(target_.master, target_.moments)(
          target_.memory.streams(piece, piece.begin, piece.end - piece.begin, target_.count), constants,
          static_cast<float>(constants.learning_rate * ratio));
    });
  }
  // 1 of norms and biases, as in the authors' code and NVIDIA's: those begin at zero, from where
  // a ratio of their own norm would let them grow by a factor of 1 + learning_rate in each step.
  double ratio(BlockRange blocks) const {
    if (blocks.begin == blocks.end || !target_.memory.rule(target_.memory.block(blocks.begin)).decay) return 1;
    LambSquares sum;
    for (std::int64_t i = blocks.begin; i < blocks.end; ++i) {
      const LambSquares& part = target_.workspace.squares[static_cast<std::size_t>(i)];
      sum.weights += part.weights;
      sum.direction += part.direction;
    }
    return fault_point("eps.no_trust_ratio") ? 1 : optimizers::trust_ratio(sum);
  }
  void update_small(BlockRange blocks) const {
    for (std::int64_t i = blocks.begin; i < blocks.end; ++i) first_pass(i);
    const double tensor_ratio = ratio(blocks);
    for (std::int64_t i = blocks.end; i > blocks.begin; --i) second_pass(i - 1, tensor_ratio);
  }
  void update_large(BlockRange blocks) const {
    const std::int64_t count = blocks.end - blocks.begin;
    target_.workers.parallel_for(count, [&](std::int64_t i, int) { first_pass(blocks.begin + i); });
    const double tensor_ratio = ratio(blocks);
    target_.workers.parallel_for(count, [&](std::int64_t i, int) { second_pass(blocks.end - 1 - i, tensor_ratio); });
  }

  const Target& target_;
  const ByRule<LambConstants, LambSettings> choice_;
};

void update(const Target& target, const LambSettings& settings) { Lamb(target, settings).run(); }

}  // namespace

void UpdateWorkspace::reserve(const GroupMemory& memory, const optimizers::Optimizer& optimizer) {
  if (!std::holds_alternative<LambSettings>(optimizer)) return;
  squares.resize(std::max(squares.size(), static_cast<std::size_t>(memory.blocks())));
  batches.reserve(memory.parameters().size());
}

void update_group(GroupMemory& memory, const Contributions& contributions, float factor,
                  const optimizers::Optimizer& optimizer, std::uint64_t count, int microbatches, Workers& workers,
                  UpdateWorkspace& workspace) {
  const Target target{memory, contributions, factor, count, microbatches, workers, workspace};
  std::visit([&](const auto& settings) { update(target, settings); }, optimizer);
}

}  // namespace l2l::eps

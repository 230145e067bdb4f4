#include "runtime/tuning/block_candidates.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "runtime/plan/fixed_decisions.h"

namespace l2l::runtime {
namespace {

using compiler::Graph;
using compiler::Op;
using compiler::Region;
using compiler::Value;
using compiler::ValueId;
using compiler::remat::Policy;

constexpr std::size_t kSets = 12;
// Values of a block each of which is left out of a backward pass of its own, to see what that takes.
constexpr std::size_t kMostDifferentiated = 64;

// Regions that ops of a graph write: what one reads there another may have made.
bool is_made(Region region) {
  return region == Region::scratch || region == Region::saved || region == Region::output ||
         region == Region::input_gradient || region == Region::loss;
}

// Op `index` of `graph` as a graph of its own, with what ops make, itself or others, in Region::saved.
Graph alone(const Graph& graph, std::size_t index) {
  Graph result;
  std::map<ValueId, ValueId> taken;
  Bytes end = 0;
  const auto take = [&](ValueId& id) {
    const auto [known, fresh] = taken.try_emplace(id, static_cast<ValueId>(result.values.size()));
    if (fresh) {
      Value value = graph.value(id);
      value.name = "operand " + std::to_string(result.values.size());  // so that equal ops give equal graphs
      if (is_made(value.region)) {
        value.region = Region::saved;
        value.offset = end;
        end = align_up(end + value.bytes(), compiler::kSavedAlignment);
      }
      result.values.push_back(std::move(value));
    }
    id = known->second;
  };
  Op op = graph.ops[index];
  std::for_each(op.inputs.begin(), op.inputs.end(), take);
  std::for_each(op.outputs.begin(), op.outputs.end(), take);
  result.name = std::string(name_of(op.kind));
  result.ops.push_back(std::move(op));
  return result;
}

// A program is left out where another one keeps as few bytes or fewer and takes no longer.
std::vector<BlockProgram> without_dominated(std::vector<BlockProgram> programs) {
  std::stable_sort(programs.begin(), programs.end(), [](const BlockProgram& a, const BlockProgram& b) {
    return a.saved != b.saved ? a.saved < b.saved : a.backward.seconds < b.backward.seconds;
  });
  std::vector<BlockProgram> kept;
  for (BlockProgram& program : programs) {
    if (kept.empty() || program.backward.seconds < kept.back().backward.seconds) kept.push_back(std::move(program));
  }
  return kept;
}

// Of the blocks of one type, of which `layer` is one.
class BlockType {
 public:
  BlockType(const RunParts& parts, StepCosts& costs, LayerIndex layer)
      : parts_(parts), costs_(costs), layer_(layer), forward_(parts.model.type(layer).forward) {}

  std::vector<SavableValue> values() const {
    const std::vector<ValueId> all = values_to_save(forward_, Policy::none);
    if (all.size() > kMostDifferentiated) return values_by_producers(all);
    const double least = cost_of(differentiate(forward_, all).backward).seconds;
    std::vector<SavableValue> values;
    for (const ValueId value : all) {
      std::vector<ValueId> others = all;
      std::erase(others, value);
      const double seconds = cost_of(differentiate(forward_, others).backward).seconds;
      values.push_back({value, std::max(0.0, seconds - least)});
    }
    return values;
  }

  // As values(), by the forward ops that lead to a value from those that are kept: what a compiler makes of them
  // together is left out.
  std::vector<SavableValue> values_by_producers(const std::vector<ValueId>& all) const {
    const std::vector<Cost> costs = op_costs(costs_, forward_, layer_);
    std::vector<std::size_t> producer(forward_.values.size(), forward_.ops.size());
    for (std::size_t op = 0; op < forward_.ops.size(); ++op) {
      for (const ValueId made : forward_.ops[op].outputs) producer[static_cast<std::size_t>(made)] = op;
    }
    const std::set<ValueId> kept(all.begin(), all.end());
    std::vector<SavableValue> values;
    for (const ValueId value : all) {
      std::set<std::size_t> ops;
      std::vector<ValueId> wanted{value};
      while (!wanted.empty()) {
        const std::size_t op = producer[static_cast<std::size_t>(wanted.back())];
        wanted.pop_back();
        if (op == forward_.ops.size() || !ops.insert(op).second) continue;
        for (const ValueId input : forward_.ops[op].inputs) {
          if (!kept.contains(input)) wanted.push_back(input);
        }
      }
      double seconds = 0;
      for (const std::size_t op : ops) seconds += costs[op].seconds;
      values.push_back({value, seconds});
    }
    return values;
  }

  std::vector<BlockProgram> programs(const std::vector<SavableValue>& values) const {
    std::vector<BlockProgram> programs;
    std::set<std::vector<ValueId>> seen;
    const auto add = [&](std::string name, const std::vector<ValueId>& saved) {
      if (seen.insert(saved).second) programs.push_back(program(std::move(name), differentiate(forward_, saved)));
    };
    for (const Policy policy : {Policy::full, Policy::min_cut, Policy::none, Policy::selective}) {
      add(std::string(name_of(policy)), values_to_save(forward_, policy));
    }
    for (const std::vector<ValueId>& set : sets_to_keep(forward_, values)) {
      add(std::to_string(set.size()) + " of " + std::to_string(values.size()) + " values", set);
    }
    programs = without_dominated(std::move(programs));
    for (BlockProgram& program : programs) program.saved_copy = stash_copy(program.saved);
    return programs;
  }

  // Of what goes to a host stash and comes back, where the options allow one.
  CopySeconds stash_copy(Bytes bytes) const {
    if (parts_.options.transfer.stash == "device") return {};
    return {costs_.copy(Direction::to_host, bytes).seconds, costs_.copy(Direction::to_device, bytes).seconds};
  }

 private:
  Cost cost_of(const Graph& graph) const {
    Cost sum;
    for (const Cost& cost : op_costs(costs_, graph, layer_)) sum = sum + cost;
    return sum;
  }
  BlockProgram program(std::string name, compiler::Visits visits) const {
    BlockProgram program;
    program.forward = cost_of(visits.forward);
    program.backward = cost_of(visits.backward);
    program.saved = visits.forward.region_bytes(Region::saved);
    program.forward_scratch = scratch_bytes(*parts_.device, visits.forward);
    program.backward_scratch = scratch_bytes(*parts_.device, visits.backward);
    program.policy = {std::move(name), std::move(visits)};
    return program;
  }

  const RunParts& parts_;
  StepCosts& costs_;
  const LayerIndex layer_;
  const Graph& forward_;
};

// Of a block's weights. Copies and gathers of different blocks overlap, unless the host's cores make both.
double wire_seconds(const RunParts& parts, StepCosts& costs, LayerIndex layer) {
  if (parts.execution.execution == Execution::resident) return 0;
  const transfer::WireSlices slices = parts.execution.slices(parts.model.wire_bytes(layer));
  const double copy = costs.copy(Direction::to_device, slices.bytes(0)).seconds;
  const double gather = costs.gather(slices.received()).seconds;
  return parts.device->uses_host_memory() ? copy + gather : std::max(copy, gather);
}

// Of a block's gradients to the host, or of their slice's exchange and its sums.
double gradient_seconds(const RunParts& parts, StepCosts& costs, LayerIndex layer) {
  const transfer::GradientSlices slices =
      parts.execution.gradient_slices(parts.model.device_layout().gradient_elements(layer));
  return costs.exchange(slices.received()).seconds + costs.copy(Direction::to_host, slices.brought(0)).seconds;
}

BlockCandidates candidates_of(const RunParts& parts, StepCosts& costs, std::vector<int> blocks) {
  const LayerIndex layer = parts.model.block(blocks.front());
  const BlockType type(parts, costs, layer);
  BlockCandidates candidates;
  candidates.blocks = std::move(blocks);
  candidates.values = type.values();
  candidates.programs = type.programs(candidates.values);
  candidates.input_copy = type.stash_copy(parts.model.activation_bytes());
  candidates.wire_seconds = wire_seconds(parts, costs, layer);
  candidates.gradient_seconds = gradient_seconds(parts, costs, layer);
  return candidates;
}

double seconds_elsewhere(const RunParts& parts, StepCosts& costs, const Programs& programs) {
  double seconds = 0;
  const ExecutionPlan execution = execution_with(parts, least_decisions(parts).placements);
  for (const VisitWork& visit : step_work(parts.model, programs, execution)) {
    if (parts.model.is_block(visit.layer)) continue;
    for (const VisitWork::Launches& launches : visit.launches) {
      seconds += launches.count * costs.launch(*launches.program, visit.layer).seconds;
    }
  }
  return seconds;
}

}  // namespace

std::vector<Cost> op_costs(StepCosts& costs, const Graph& graph, LayerIndex layer) {
  std::vector<Cost> all;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    all.push_back(costs.launch(alone(graph, i), layer, Effort::quick));
  }
  return all;
}

std::vector<std::vector<ValueId>> sets_to_keep(const Graph& forward, const std::vector<SavableValue>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const auto bytes = [&](std::size_t i) { return static_cast<double>(forward.value(values[i].value).bytes()); };
    return values[a].recomputed * bytes(b) > values[b].recomputed * bytes(a);
  });
  std::vector<std::vector<ValueId>> sets;
  for (std::size_t i = 1; i <= kSets; ++i) {
    const std::size_t kept = values.size() * i / (kSets + 1);
    std::vector<std::size_t> first(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept));
    std::sort(first.begin(), first.end());
    std::vector<ValueId>& set = sets.emplace_back();
    for (const std::size_t value : first) set.push_back(values[value].value);
  }
  return sets;
}

Bytes scratch_bytes(device::Device& device, const Graph& graph) {
  return device.compile(graph)->program().scratch_bytes;
}

Candidates block_candidates(const RunParts& parts, StepCosts& costs) {
  std::map<int, std::vector<int>> blocks;  // by type
  for (int block = 1; block <= parts.model.blocks(); ++block) {
    blocks[parts.model.type_of[static_cast<std::size_t>(parts.model.block(block))]].push_back(block);
  }
  Candidates candidates;
  for (auto& [type, its] : blocks) candidates.types.push_back(candidates_of(parts, costs, std::move(its)));
  const auto programs = compile(parts.first_members(), parts.model, parts.execution.gradients, parts.execution.parts,
                                parts.execution.summing());
  candidates.scratch = scratch_of(parts.model, programs, Blocks::without);
  if (parts.options.chooses_micro_batch) {
    candidates.seconds_elsewhere = seconds_elsewhere(parts, costs, *programs.front());
  }
  return candidates;
}

}  // namespace l2l::runtime

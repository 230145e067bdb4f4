#include "runtime/plan/decisions.h"

#include <map>
#include <set>
#include <utility>

#include "compiler/memory/program.h"
#include "compiler/remat/verifier.h"
#include "l2l/errors.h"

namespace l2l::runtime {
namespace {

using compiler::Graph;

int type_of(const models::Model& model, int block) {
  return model.type_of[static_cast<std::size_t>(model.block(block))];
}

void require_right(const Graph& plain, const compiler::Visits& visits) {
  const auto planned = [](const Graph& graph) {
    return compiler::plan_program(graph, [](const Graph&, std::size_t) { return Bytes{0}; });
  };
  const std::string wrong = compiler::remat::verify(plain, planned(visits.forward), planned(visits.backward));
  if (!wrong.empty()) throw Error("recomputation: the programs are wrong: " + wrong);
}

}  // namespace

Decisions uniform_policy(const models::Model& model, compiler::remat::Policy policy) {
  Decisions decisions;
  std::map<int, int> policy_of;  // by block type
  for (int block = 1; block <= model.blocks(); ++block) {
    const int type = type_of(model, block);
    const auto [known, fresh] = policy_of.try_emplace(type, static_cast<int>(decisions.policies.size()));
    if (fresh) {
      const Graph& forward = model.types[static_cast<std::size_t>(type)].forward;
      decisions.policies.push_back(
          {std::string(name_of(policy)), differentiate(forward, values_to_save(forward, policy))});
    }
    decisions.policy_of.push_back(known->second);
  }
  return decisions;
}

std::vector<int> places_of_fewer(int all, int blocks) {
  std::vector<int> places;
  const std::int64_t last = all - 1;
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t place = blocks > 1 ? (block * last + (blocks - 1) / 2) / (blocks - 1) : last;
    places.push_back(static_cast<int>(place));
  }
  return places;
}

Decisions resampled(const Decisions& decisions, int blocks) {
  Decisions fewer = decisions;
  fewer.policy_of.clear();
  fewer.placements.clear();
  for (const int place : places_of_fewer(static_cast<int>(decisions.placements.size()), blocks)) {
    const auto at = static_cast<std::size_t>(place);
    if (!decisions.policy_of.empty()) fewer.policy_of.push_back(decisions.policy_of[at]);
    fewer.placements.push_back(decisions.placements[at]);
  }
  return fewer;
}

models::Model with_policies(models::Model model, const Decisions& decisions) {
  if (decisions.policies.empty()) return model;
  std::map<std::pair<int, int>, int> known;  // type and policy -> type
  std::set<int> replaced;                    // types whose own programs were
  const std::vector<models::LayerType> plain = model.types;
  for (int block = 1; block <= model.blocks(); ++block) {
    int& type = model.type_of[static_cast<std::size_t>(model.block(block))];
    const int policy = decisions.policy_of.at(static_cast<std::size_t>(block - 1));
    auto [place, fresh] = known.try_emplace({type, policy}, type);
    if (fresh) {
      const compiler::Visits& visits = decisions.policies[static_cast<std::size_t>(policy)].visits;
      models::LayerType after{visits.forward, visits.backward, plain[static_cast<std::size_t>(type)].logits};
      if (replaced.insert(type).second) {
        model.types[static_cast<std::size_t>(type)] = std::move(after);
      } else {
        place->second = static_cast<int>(model.types.size());
        model.types.push_back(std::move(after));
      }
    }
    type = place->second;
  }
  return model;
}

models::Model with_policies(models::Model shorter, const models::Model& whole, Decisions decisions) {
  std::vector<bool> adapted(decisions.policies.size());
  for (int block = 1; block <= whole.blocks() && !decisions.policies.empty(); ++block) {
    const auto policy = static_cast<std::size_t>(decisions.policy_of.at(static_cast<std::size_t>(block - 1)));
    if (adapted[policy]) continue;
    adapted[policy] = true;
    compiler::Visits& visits = decisions.policies[policy].visits;
    visits = differentiate(shorter.type(shorter.block(block)).forward, saved_values(visits.forward));
  }
  return with_policies(std::move(shorter), decisions);
}

Decisions of_share(Decisions decisions, const compiler::Shard& shard) {
  for (BlockPolicy& policy : decisions.policies) {
    for (Graph* const graph : {&policy.visits.forward, &policy.visits.backward}) {
      for (compiler::Op& op : graph->ops) {
        if (op.attributes.shard.count > 1) op.attributes.shard = shard;
      }
    }
  }
  return decisions;
}

void verify(const Decisions& decisions, const models::Model& model) {
  if (decisions.policies.empty()) return;
  std::set<std::pair<int, int>> seen;  // type and policy
  for (int block = 1; block <= model.blocks(); ++block) {
    const int type = type_of(model, block);
    const int policy = decisions.policy_of.at(static_cast<std::size_t>(block - 1));
    if (!seen.insert({type, policy}).second) continue;
    require_right(model.types[static_cast<std::size_t>(type)].forward,
                  decisions.policies[static_cast<std::size_t>(policy)].visits);
  }
}

}  // namespace l2l::runtime

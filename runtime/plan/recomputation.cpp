#include "runtime/plan/recomputation.h"

#include <map>
#include <set>
#include <utility>

#include "compiler/memory/program.h"
#include "compiler/remat/verifier.h"
#include "l2l/errors.h"

namespace l2l::runtime {

using compiler::Graph;

namespace {

int type_of_block(const models::Model& model, int block) {
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

Recomputation uniform_recomputation(const models::Model& model, compiler::remat::Policy policy) {
  Recomputation recomputation;
  std::map<int, int> policy_of;  // by block type
  for (int block = 1; block <= model.blocks(); ++block) {
    const int type = type_of_block(model, block);
    const auto [known, fresh] = policy_of.try_emplace(type, static_cast<int>(recomputation.policies.size()));
    if (fresh) {
      const Graph& forward = model.types[static_cast<std::size_t>(type)].forward;
      recomputation.policies.push_back(
          {std::string(name_of(policy)), differentiate(forward, values_to_save(forward, policy))});
    }
    recomputation.of_block.push_back(known->second);
  }
  return recomputation;
}

Arrangement resampled(const Arrangement& arrangement, int blocks) {
  const auto pick = [&](const auto& of_block) {
    auto fewer = of_block;
    fewer.clear();
    const auto last = static_cast<int>(of_block.size()) - 1;
    for (int block = 0; block < blocks && last >= 0; ++block) {
      const int place = blocks > 1 ? (block * last + (blocks - 1) / 2) / (blocks - 1) : last;
      fewer.push_back(of_block[static_cast<std::size_t>(place)]);
    }
    return fewer;
  };
  Arrangement fewer = arrangement;
  fewer.recomputation.of_block = pick(arrangement.recomputation.of_block);
  fewer.places = pick(arrangement.places);
  return fewer;
}

void verify(const Recomputation& recomputation, const models::Model& model) {
  std::set<std::pair<int, int>> seen;  // type and policy
  for (int block = 1; block <= model.blocks(); ++block) {
    const int type = type_of_block(model, block);
    const int policy = recomputation.of_block.at(static_cast<std::size_t>(block - 1));
    if (!seen.insert({type, policy}).second) continue;
    require_right(model.types[static_cast<std::size_t>(type)].forward,
                  recomputation.policies[static_cast<std::size_t>(policy)].visits);
  }
}

void apply(const Recomputation& recomputation, models::Model& model) {
  std::map<std::pair<int, int>, int> known;  // type and policy -> type
  std::map<int, bool> replaced;              // type -> whether its own programs were
  const std::vector<models::LayerType> plain = model.types;
  for (int block = 1; block <= model.blocks(); ++block) {
    const int type = type_of_block(model, block);
    const int policy = recomputation.of_block.at(static_cast<std::size_t>(block - 1));
    auto [place, fresh] = known.try_emplace({type, policy}, type);
    if (fresh) {
      const models::LayerType& before = plain[static_cast<std::size_t>(type)];
      const compiler::Visits& visits = recomputation.policies[static_cast<std::size_t>(policy)].visits;
      models::LayerType after{visits.forward, visits.backward, before.logits};
      if (replaced[type]) {
        place->second = static_cast<int>(model.types.size());
        model.types.push_back(std::move(after));
      } else {
        replaced[type] = true;
        model.types[static_cast<std::size_t>(type)] = std::move(after);
      }
    }
    model.type_of[static_cast<std::size_t>(model.block(block))] = place->second;
  }
}

}  // namespace l2l::runtime

#include "runtime/recomputation.h"

#include <set>

#include "device/graph/differentiate.h"
#include "device/recompute/policy.h"

namespace l2l::runtime {

void apply_recomputation(models::Model& model, const RecomputeOptions& options) {
  const device::recompute::Policy policy = device::recompute::parse_policy(options.policy);
  std::set<int> types;
  for (int block = 1; block <= model.blocks(); ++block) {
    types.insert(model.type_of[static_cast<std::size_t>(model.block(block))]);
  }
  for (const int type : types) {
    models::LayerType& layer = model.types[static_cast<std::size_t>(type)];
    device::graph::Visits visits =
        differentiate(layer.forward, device::recompute::values_to_save(layer.forward, policy));
    layer.forward = std::move(visits.forward);
    layer.backward = std::move(visits.backward);
  }
}

}  // namespace l2l::runtime

#include "compiler/autodiff/differentiate.h"

#include <algorithm>
#include <iterator>

#include "compiler/autodiff/backward.h"

namespace l2l::compiler {

std::vector<ValueId> read_by_backward(const Graph& forward) {
  Backward backward(forward);
  backward.differentiate();
  return backward.values_read();
}

Graph with_keepable_results(Graph forward) {
  std::vector<ValueId> costly;
  for (const Op& op : forward.ops) {
    if (!is_costly(op.kind)) continue;
    const auto is_result = [&](ValueId id) { return forward.value(id).region == Region::output; };
    std::copy_if(op.outputs.begin(), op.outputs.end(), std::back_inserter(costly), is_result);
  }
  if (costly.empty()) return forward;  // as in all layers of the families
  const std::vector<ValueId> read = read_by_backward(forward);
  for (const ValueId id : costly) {
    if (std::count(read.begin(), read.end(), id) == 0) continue;
    const auto copy = static_cast<ValueId>(forward.values.size());
    forward.values.push_back(forward.value(id));
    Value& kept = forward.values[static_cast<std::size_t>(id)];
    kept.region = Region::scratch;
    kept.offset = 0;
    forward.ops.push_back({OpKind::reshape, {id}, {copy}, {}});
  }
  return forward;
}

Visits differentiate(const Graph& forward, const std::vector<ValueId>& saved) {
  forward.validate();
  Backward backward(forward);
  backward.differentiate();
  backward.recompute(saved);
  Visits visits{forward, backward.finish()};
  place_saved(visits.forward, saved);
  visits.forward.validate();
  return visits;
}

std::vector<ValueId> saved_values(const Graph& forward) {
  std::vector<ValueId> saved;
  for (std::size_t i = 0; i < forward.values.size(); ++i) {
    if (forward.values[i].region == Region::saved) saved.push_back(static_cast<ValueId>(i));
  }
  std::sort(saved.begin(), saved.end(),
            [&](ValueId a, ValueId b) { return forward.value(a).offset < forward.value(b).offset; });
  return saved;
}

Graph differentiate(const Graph& forward) { return differentiate(forward, {}).backward; }

}  // namespace l2l::compiler

#include "models/parameter_list.h"

namespace l2l::models {

using device::graph::Region;
using device::graph::ValueId;

std::int64_t ParameterList::add(std::string name, Shape shape, Initial initial, float deviation, bool decay) {
  const std::int64_t offset = elements_;
  const std::int64_t size = shape.elements();
  parameters_.push_back({std::move(name), shape, offset, decay, initial, deviation});
  elements_ = static_cast<std::int64_t>(
      align_up(checked_add(static_cast<Bytes>(offset), static_cast<Bytes>(size), "layer"), kAlignment));
  return offset;
}

GroupSpec ParameterList::group(std::string name, std::uint32_t id, const std::string& prefix) const {
  GroupSpec group{std::move(name), id, parameters_, elements_};
  for (ParameterSpec& parameter : group.parameters) parameter.name = prefix + parameter.name;
  return group;
}

ValueId LayerWeights::matrix(const std::string& name, std::int64_t rows, std::int64_t columns, float deviation) {
  const Shape shape{rows, columns};
  const std::int64_t offset = list_.add(name, shape, Initial::normal, deviation, /*decay=*/true);
  return borrowed(name, shape, wire_offset_ + offset);
}

ValueId LayerWeights::vector(const std::string& name, std::int64_t size, Initial initial) {
  const Shape shape{size};
  const std::int64_t offset = list_.add(name, shape, initial, 0, /*decay=*/false);
  return borrowed(name, shape, wire_offset_ + offset);
}

ValueId LayerWeights::borrowed(const std::string& name, Shape shape, std::int64_t offset) {
  return graph_.bound(Region::weights, name, compute_, shape, static_cast<Bytes>(offset) * size_of(compute_));
}

}  // namespace l2l::models

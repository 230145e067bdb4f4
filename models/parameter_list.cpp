#include "models/parameter_list.h"

namespace l2l::models {

using compiler::Region;
using compiler::ValueId;

std::int64_t ParameterList::add(const std::vector<std::pair<std::string, Shape>>& parameters, Initial initial,
                                float deviation) {
  const std::int64_t first = elements_;
  for (const auto& [name, shape] : parameters) {
    parameters_.push_back({name, shape, elements_, /*decay=*/shape.rank() == 2, initial, deviation});
    elements_ = static_cast<std::int64_t>(
        checked_add(static_cast<Bytes>(elements_), static_cast<Bytes>(shape.elements()), "layer"));
  }
  elements_ = static_cast<std::int64_t>(align_up(static_cast<Bytes>(elements_), kAlignment));
  return first;
}

std::int64_t ParameterList::add_statistic(const std::string& name, std::int64_t elements, Initial initial,
                                          float share) {
  const std::int64_t first = add({{name, Shape{elements}}}, initial);
  parameters_.back().statistic = share;
  return first;
}

GroupSpec ParameterList::group(std::string name, std::uint32_t id, const std::string& prefix) const {
  GroupSpec group{std::move(name), id, parameters_, elements_};
  for (ParameterSpec& parameter : group.parameters) parameter.name = prefix + parameter.name;
  return group;
}

ValueId LayerWeights::matrix(const std::string& name, std::int64_t rows, std::int64_t columns, float deviation) {
  return joined_matrix({{name, rows}}, columns, deviation);
}

ValueId LayerWeights::matrix(const std::string& name, std::int64_t rows, std::int64_t columns, Initial initial,
                             float deviation) {
  return borrowed(name, {rows, columns}, wire_offset_ + list_.add({{name, {rows, columns}}}, initial, deviation));
}

ValueId LayerWeights::vector(const std::string& name, std::int64_t size, Initial initial, float deviation) {
  return joined_vector({{name, size}}, initial, deviation);
}

ValueId LayerWeights::statistic(const std::string& name, std::int64_t size, Initial initial, float share) {
  return borrowed(name, {size}, wire_offset_ + list_.add_statistic(name, size, initial, share));
}

ValueId LayerWeights::rows_from(const std::string& name, std::int64_t rows, std::int64_t first, std::int64_t columns,
                                float deviation) {
  const std::int64_t offset = wire_offset_ + list_.add({{name, {rows, columns}}}, Initial::normal, deviation);
  return borrowed(name, {rows - first, columns}, offset + first * columns);
}

ValueId LayerWeights::joined_matrix(const std::vector<Piece>& pieces, std::int64_t columns, float deviation) {
  return joined_matrix(pieces, columns, Initial::normal, deviation);
}

ValueId LayerWeights::joined_matrix(const std::vector<Piece>& pieces, std::int64_t columns, Initial initial,
                                    float deviation) {
  return joined(
      pieces,
      [&](std::int64_t rows) {
        return Shape{rows, columns};
      },
      initial, deviation);
}

ValueId LayerWeights::joined_vector(const std::vector<Piece>& pieces, Initial initial, float deviation) {
  return joined(
      pieces, [](std::int64_t rows) { return Shape{rows}; }, initial, deviation);
}

template <typename ShapeOf>
ValueId LayerWeights::joined(const std::vector<Piece>& pieces, ShapeOf shape_of, Initial initial, float deviation) {
  std::vector<std::pair<std::string, Shape>> parameters;
  std::string names;
  std::int64_t rows = 0;
  for (const Piece& piece : pieces) {
    parameters.emplace_back(piece.name, shape_of(piece.rows));
    names += (names.empty() ? "" : " | ") + piece.name;
    rows += piece.rows;
  }
  return borrowed(names, shape_of(rows), wire_offset_ + list_.add(parameters, initial, deviation));
}

ValueId LayerWeights::borrowed(const std::string& name, Shape shape, std::int64_t offset) {
  return graph_.bound(Region::weights, name, compute_, shape, static_cast<Bytes>(offset) * size_of(compute_));
}

}  // namespace l2l::models

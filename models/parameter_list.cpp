#include "models/parameter_list.h"

namespace l2l::models {

using compiler::Region;
using compiler::ValueId;

namespace {

std::string names_of(const std::vector<LayerWeights::Piece>& pieces) {
  std::string names;
  for (const LayerWeights::Piece& piece : pieces) names += (names.empty() ? "" : " | ") + piece.name;
  return names;
}

}  // namespace

std::int64_t ParameterList::add(std::string name, Shape shape, Initial initial, float deviation, bool decay) {
  const std::int64_t offset = elements_;
  append(std::move(name), shape, initial, deviation, decay);
  align();
  return offset;
}

std::int64_t ParameterList::add_joined(const std::vector<std::pair<std::string, Shape>>& parts, Initial initial,
                                       float deviation, bool decay) {
  const std::int64_t offset = elements_;
  for (const auto& [name, shape] : parts) append(name, shape, initial, deviation, decay);
  align();
  return offset;
}

void ParameterList::append(std::string name, Shape shape, Initial initial, float deviation, bool decay) {
  const std::int64_t offset = elements_, size = shape.elements();
  parameters_.push_back({std::move(name), shape, offset, decay, initial, deviation});
  elements_ = static_cast<std::int64_t>(checked_add(static_cast<Bytes>(offset), static_cast<Bytes>(size), "layer"));
}

void ParameterList::align() {
  elements_ = static_cast<std::int64_t>(align_up(static_cast<Bytes>(elements_), kAlignment));
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

ValueId LayerWeights::joined_matrix(const std::vector<Piece>& pieces, std::int64_t columns, float deviation) {
  std::vector<std::pair<std::string, Shape>> parts;
  std::int64_t rows = 0;
  for (const Piece& piece : pieces) {
    parts.emplace_back(piece.name, Shape{piece.rows, columns});
    rows += piece.rows;
  }
  const std::int64_t offset = list_.add_joined(parts, Initial::normal, deviation, /*decay=*/true);
  return borrowed(names_of(pieces), {rows, columns}, wire_offset_ + offset);
}

ValueId LayerWeights::joined_vector(const std::vector<Piece>& pieces, Initial initial) {
  std::vector<std::pair<std::string, Shape>> parts;
  std::int64_t rows = 0;
  for (const Piece& piece : pieces) {
    parts.emplace_back(piece.name, Shape{piece.rows});
    rows += piece.rows;
  }
  const std::int64_t offset = list_.add_joined(parts, initial, 0, /*decay=*/false);
  return borrowed(names_of(pieces), {rows}, wire_offset_ + offset);
}

ValueId LayerWeights::borrowed(const std::string& name, Shape shape, std::int64_t offset) {
  return graph_.bound(Region::weights, name, compute_, shape, static_cast<Bytes>(offset) * size_of(compute_));
}

}  // namespace l2l::models

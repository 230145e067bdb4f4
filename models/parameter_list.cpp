#include "models/parameter_list.h"

#include "l2l/errors.h"

namespace l2l::models {

using compiler::Region;
using compiler::ValueId;

namespace {

Shape with_extent(const Shape& shape, std::size_t axis, std::int64_t extent) {
  Shape changed;
  for (std::size_t i = 0; i < shape.rank(); ++i) changed.push_back(i == axis ? extent : shape[i]);
  return changed;
}

// What `split` gives a device of a parameter of this shape, which is split into `most_shares` at most, if not 0.
ParameterList::Parameter share_of(const std::string& name, const Shape& whole, const Split& split,
                                  std::int64_t most_shares) {
  if (split.shard.count == 1) return {name, whole};
  const bool shared = most_shares > 0 && most_shares < split.shard.count;
  const std::int64_t devices = shared ? split.shard.count / most_shares : 1;
  const std::int64_t count = split.shard.count / devices, index = split.shard.index / devices;
  const std::int64_t extent = whole[split.axis], section = extent / split.sections, own = section / count;
  if (own * count * split.sections != extent) {
    throw BadInput(name + ": " + std::to_string(extent) + " of " + whole.to_string() + " cannot be split over " +
                   std::to_string(count) + " devices" +
                   (split.sections > 1 ? " in " + std::to_string(split.sections) + " sections" : ""));
  }
  ParameterShare share{.whole = whole, .axis = split.axis, .devices = static_cast<int>(devices)};
  for (std::int64_t i = 0; i < split.sections; ++i) share.ranges.push_back({i * section + index * own, own});
  return {name, with_extent(whole, split.axis, split.sections * own), std::move(share)};
}

}  // namespace

std::int64_t ParameterList::add(const std::vector<Parameter>& parameters, Initial initial, float deviation) {
  const std::int64_t first = elements_;
  for (const auto& [name, shape, share] : parameters) {
    parameters_.push_back({name, shape, elements_, /*decay=*/shape.rank() == 2, initial, deviation});
    parameters_.back().share = share;
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

ValueId LayerWeights::matrix(const std::string& name, std::int64_t rows, std::int64_t columns, float deviation,
                             const Split& split) {
  return joined_matrix({{name, rows}}, columns, deviation, split);
}

ValueId LayerWeights::matrix(const std::string& name, std::int64_t rows, std::int64_t columns, Initial initial,
                             float deviation) {
  return borrowed(name, {rows, columns}, wire_offset_ + list_.add({{name, {rows, columns}}}, initial, deviation));
}

ValueId LayerWeights::vector(const std::string& name, std::int64_t size, Initial initial, float deviation,
                             const Split& split) {
  return joined_vector({{name, size}}, initial, deviation, split);
}

ValueId LayerWeights::row(const std::string& name, std::int64_t size, Initial initial) {
  return borrowed(name, {1, size}, wire_offset_ + list_.add({{name, {size}}}, initial));
}

ValueId LayerWeights::statistic(const std::string& name, std::int64_t size, Initial initial, float share) {
  return borrowed(name, {size}, wire_offset_ + list_.add_statistic(name, size, initial, share));
}

ValueId LayerWeights::rows_from(const std::string& name, std::int64_t rows, std::int64_t first, std::int64_t columns,
                                float deviation) {
  const std::int64_t offset = wire_offset_ + list_.add({{name, {rows, columns}}}, Initial::normal, deviation);
  return borrowed(name, {rows - first, columns}, offset + first * columns);
}

ValueId LayerWeights::joined_matrix(const std::vector<Piece>& pieces, std::int64_t columns, float deviation,
                                    const Split& split) {
  return joined_matrix(pieces, columns, Initial::normal, deviation, split);
}

ValueId LayerWeights::joined_matrix(const std::vector<Piece>& pieces, std::int64_t columns, Initial initial,
                                    float deviation, const Split& split) {
  return joined(
      pieces,
      [&](std::int64_t rows) {
        return Shape{rows, columns};
      },
      initial, deviation, split);
}

ValueId LayerWeights::joined_vector(const std::vector<Piece>& pieces, Initial initial, float deviation,
                                    const Split& split) {
  return joined(
      pieces, [](std::int64_t rows) { return Shape{rows}; }, initial, deviation, split);
}

template <typename ShapeOf>
ValueId LayerWeights::joined(const std::vector<Piece>& pieces, ShapeOf shape_of, Initial initial, float deviation,
                             const Split& split) {
  std::vector<ParameterList::Parameter> parameters;
  std::string names;
  std::int64_t rows = 0;
  for (const Piece& piece : pieces) {
    parameters.push_back(share_of(piece.name, shape_of(piece.rows), split, piece.most_shares));
    names += (names.empty() ? "" : " | ") + piece.name;
    rows += parameters.back().shape[0];
  }
  return borrowed(names, with_extent(parameters[0].shape, 0, rows),
                  wire_offset_ + list_.add(parameters, initial, deviation));
}

ValueId LayerWeights::borrowed(const std::string& name, Shape shape, std::int64_t offset) {
  return graph_.bound(Region::weights, name, compute_, shape, static_cast<Bytes>(offset) * size_of(compute_));
}

}  // namespace l2l::models

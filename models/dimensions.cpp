#include "models/dimensions.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <span>

namespace l2l::models {
namespace {

using compiler::Attributes;
using compiler::GraphBuilder;
using compiler::OpKind;
using compiler::ValueId;

constexpr std::size_t kMost = 4;  // dimensions of an op

struct Dimension {
  std::int64_t size;
  bool marked;
};

void append(std::vector<Dimension>& dimensions, Dimension next) {
  if (!dimensions.empty() && dimensions.back().marked == next.marked) {
    dimensions.back().size *= next.size;
  } else {
    dimensions.push_back(next);
  }
}

// Where there are more than an op has, neighbours that are marked alike as one, and none of 1.
std::vector<Dimension> merged(const std::vector<Dimension>& all) {
  if (all.size() <= kMost) return all;
  std::vector<Dimension> merged;
  for (const Dimension& each : all) {
    if (each.size != 1) append(merged, each);
  }
  return merged;
}

std::int64_t elements(const std::vector<Dimension>& dimensions, std::size_t begin, std::size_t end) {
  std::int64_t product = 1;
  for (std::size_t i = begin; i < end; ++i) product *= dimensions[i].size;
  return product;
}

ValueId in_columns(GraphBuilder& graph, ValueId x, std::int64_t columns) {
  const Shape& shape = graph.value(x).shape;
  return shape.rank() == 2 && shape[1] == columns ? x : graph.reshape(x, columns);
}

// `kept`: those that are not marked.
Attributes attributes_of(const std::vector<Dimension>& dimensions) {
  Attributes attributes{.kept = 0xf};
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    const std::size_t place = kMost - dimensions.size() + i;
    attributes.dims[place] = dimensions[i].size;
    if (dimensions[i].marked) attributes.kept &= ~(1u << place);
  }
  return attributes;
}

// Only the last marked dimension, and those on its sides, as one each.
std::vector<Dimension> last_alone(const std::vector<Dimension>& dimensions, std::size_t& last, bool others_are_1) {
  last = dimensions.size() - 1;
  while (!dimensions[last].marked) --last;
  std::vector<Dimension> others = dimensions;
  if (others_are_1) {
    for (Dimension& each : others) each.size = each.marked ? 1 : each.size;
  }
  return {{elements(others, 0, last), false},
          {dimensions[last].size, true},
          {elements(others, last + 1, others.size()), false}};
}

// A parameter is read as it is.
ValueId repeat_once(GraphBuilder& graph, ValueId x, const std::vector<Dimension>& dimensions) {
  const Attributes attributes = attributes_of(dimensions);
  const std::int64_t columns = (attributes.kept >> 3 & 1u) != 0 ? attributes.dims[3] : 1;
  const bool parameter = graph.value(x).region == compiler::Region::weights;
  return graph.apply(OpKind::broadcast, {parameter ? x : in_columns(graph, x, columns)}, attributes);
}

ValueId sum_once(GraphBuilder& graph, ValueId x, const std::vector<Dimension>& dimensions, float factor) {
  Attributes attributes = attributes_of(dimensions);
  attributes.factor = factor;
  return graph.apply(OpKind::sum, {in_columns(graph, x, attributes.dims[3])}, attributes);
}

ValueId permute_once(GraphBuilder& graph, ValueId x, const std::array<std::int64_t, kMost>& dims,
                     const std::array<std::uint8_t, kMost>& axes) {
  Attributes attributes{.dims = dims};
  attributes.axes = axes;
  return graph.apply(OpKind::permute, {in_columns(graph, x, dims[3])}, attributes);
}

// A permutation of dimensions.
struct Order {
  std::vector<std::int64_t> sizes;
  std::vector<std::size_t> axes;  // dimension i of the result
};

// Where there are more than an op has, none of 1, and those that stay neighbours as one.
Order merged(const Order& all) {
  if (all.sizes.size() <= kMost) return all;
  std::vector<std::size_t> left;  // axes
  for (const std::size_t axis : all.axes) {
    if (all.sizes[axis] != 1) left.push_back(axis);
  }
  const auto follows = [&](std::size_t axis, std::size_t before) {
    for (std::size_t i = before + 1; i < axis; ++i) {
      if (all.sizes[i] != 1) return false;
    }
    return axis > before;
  };
  std::vector<std::size_t> firsts;  // of each run, in the order of the result
  std::vector<std::int64_t> products;
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (i > 0 && follows(left[i], left[i - 1])) {
      products.back() *= all.sizes[left[i]];
    } else {
      firsts.push_back(left[i]);
      products.push_back(all.sizes[left[i]]);
    }
  }
  Order order{std::vector<std::int64_t>(firsts.size()), {}};
  for (std::size_t i = 0; i < firsts.size(); ++i) {
    const auto place = static_cast<std::size_t>(std::ranges::count_if(firsts, [&](auto f) { return f < firsts[i]; }));
    order.sizes[place] = products[i];
    order.axes.push_back(place);
  }
  return order;
}

std::int64_t product(std::span<const std::int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

}  // namespace

ValueId repeat(GraphBuilder& graph, ValueId x, const Shape& shape, const Shape& all) {
  std::vector<Dimension> dimensions;
  const std::size_t missing = all.rank() - shape.rank();
  for (std::size_t i = 0; i < all.rank(); ++i) {
    dimensions.push_back({all[i], i < missing || shape[i - missing] != all[i]});
  }
  dimensions = merged(dimensions);
  while (dimensions.size() > kMost) {
    std::size_t last = 0;
    x = repeat_once(graph, x, last_alone(dimensions, last, /*others_are_1=*/true));
    dimensions[last].marked = false;
    dimensions = merged(dimensions);
  }
  return in_columns(graph, repeat_once(graph, x, dimensions), all[all.rank() - 1]);
}

ValueId sum(GraphBuilder& graph, ValueId x, const Shape& shape, const std::vector<bool>& summed, float factor) {
  std::vector<Dimension> dimensions;
  for (std::size_t i = 0; i < shape.rank(); ++i) dimensions.push_back({shape[i], summed[i]});
  dimensions = merged(dimensions);
  std::vector<std::vector<Dimension>> steps;
  while (dimensions.size() > kMost) {
    std::size_t last = 0;
    steps.push_back(last_alone(dimensions, last, /*others_are_1=*/false));
    dimensions[last] = {1, false};
    dimensions = merged(dimensions);
  }
  steps.push_back(dimensions);
  // Each has its share of the factor, so that what lies between them is as large as the values.
  const float share = std::pow(factor, 1.0f / static_cast<float>(steps.size()));
  for (const std::vector<Dimension>& step : steps) x = sum_once(graph, x, step, steps.size() == 1 ? factor : share);
  const std::size_t columns = shape.rank() - 1;
  return in_columns(graph, x, summed[columns] ? 1 : shape[columns]);
}

ValueId permute(GraphBuilder& graph, ValueId x, const Shape& shape, const std::vector<int>& axes) {
  Order order;
  for (std::size_t i = 0; i < shape.rank(); ++i) order.sizes.push_back(shape[i]);
  order.axes.assign(axes.begin(), axes.end());
  order = merged(order);
  // One dimension after another is brought to its place, past those that stand before it.
  while (order.sizes.size() > kMost) {
    std::size_t place = 0;
    while (order.axes[place] == place) ++place;
    const std::span<const std::int64_t> sizes = order.sizes;
    const std::size_t from = order.axes[place];
    x = permute_once(graph, x,
                     {product(sizes.first(place)), product(sizes.subspan(place, from - place)), sizes[from],
                      product(sizes.subspan(from + 1))},
                     {0, 2, 1, 3});
    const auto at = [&](std::size_t i) { return order.sizes.begin() + static_cast<std::ptrdiff_t>(i); };
    std::rotate(at(place), at(from), at(from + 1));
    for (std::size_t& axis : order.axes) {
      if (axis == from) {
        axis = place;
      } else if (axis >= place && axis < from) {
        ++axis;
      }
    }
    order = merged(order);
  }
  std::array<std::int64_t, kMost> dims = {1, 1, 1, 1};
  std::array<std::uint8_t, kMost> last = {0, 1, 2, 3};
  const std::size_t missing = kMost - order.sizes.size();
  for (std::size_t i = 0; i < order.sizes.size(); ++i) {
    dims[missing + i] = order.sizes[i];
    last[missing + i] = static_cast<std::uint8_t>(missing + order.axes[i]);
  }
  return in_columns(graph, permute_once(graph, x, dims, last), shape[static_cast<std::size_t>(axes.back())]);
}

}  // namespace l2l::models

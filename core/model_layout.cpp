#include "core/model_layout.h"

#include <algorithm>
#include <set>
#include <utility>

#include "l2l/errors.h"

namespace l2l {
namespace {

constexpr std::size_t kMaxParameters = 256;  // per group: RngKey::op has 8 bits

std::string quoted(const std::string& name) { return "\"" + name + "\""; }

// Throws unless [begin, begin + elements) follows `end` and stays below `limit`; returns its end.
std::int64_t check_range(std::int64_t begin, std::int64_t elements, std::int64_t end, std::int64_t limit,
                         const std::string& what) {
  if (begin < end)
    throw BadInput(what + " begins at element " + std::to_string(begin) + ", before the end " + std::to_string(end) +
                   " of its predecessor");
  if (elements > limit || begin > limit - elements) {
    throw BadInput(what + " has " + std::to_string(elements) + " elements at " + std::to_string(begin) +
                   ", beyond the end " + std::to_string(limit));
  }
  return begin + elements;
}

void validate_group(const GroupSpec& group, std::set<std::string>& names) {
  const std::string where = "parameter group " + quoted(group.name);
  if (group.elements <= 0) throw BadInput(where + " has no elements");
  if (group.parameters.size() > kMaxParameters) throw BadInput(where + " has more than 256 parameters");
  std::int64_t end = 0;
  for (const ParameterSpec& parameter : group.parameters) {
    const std::string what = where + ": parameter " + quoted(parameter.name);
    if (!names.insert(parameter.name).second) throw BadInput(what + " occurs twice");
    if (parameter.shape.elements() > kMaxParameterElements) throw BadInput(what + " has more than 2^34 elements");
    end = check_range(parameter.offset, parameter.shape.elements(), end, group.elements, what);
  }
}

void validate_layer(const LayerSpec& layer, const ModelLayout& layout) {
  const std::vector<GroupSpec>& groups = layout.groups;
  const std::string where = "layer " + quoted(layer.name);
  std::vector<LayerPart> parts = layer.parts;
  std::sort(parts.begin(), parts.end(), [](const LayerPart& a, const LayerPart& b) { return a.offset < b.offset; });
  std::set<GroupIndex> seen;
  std::int64_t end = 0;
  for (const LayerPart& part : parts) {
    if (part.group < 0 || part.group >= static_cast<GroupIndex>(groups.size())) {
      throw BadInput(where + " names group " + std::to_string(part.group) + " of " + std::to_string(groups.size()));
    }
    const GroupSpec& group = groups[static_cast<std::size_t>(part.group)];
    if (!seen.insert(part.group).second) throw BadInput(where + " has group " + quoted(group.name) + " twice");
    const std::string what = where + ": group " + quoted(group.name);
    check_range(part.begin, layout.elements_of(part), 0, group.elements, what + ", its range");
    end = check_range(part.offset, layout.elements_of(part), end, layer.elements, what);
    const std::int64_t gradients = group.gradient_elements();
    if (layout.elements_of(part) < group.elements && gradients > 0 && gradients < group.elements) {
      throw BadInput(what + ": a range of a group that is trained in part");
    }
  }
}

// Calls visit(parameter, offset of its gradient) for the trained parameters of a group, in order. Parameters without a
// gap between them stay neighbours, so that those that are one operand have gradients that are one, too. Returns the
// end.
template <typename Visit>
std::int64_t for_each_gradient(const GroupSpec& group, const Visit& visit) {
  constexpr Bytes kAlignment = 8;  // elements; 16 bytes in 16-bit types
  std::int64_t end = 0, wire_end = 0;
  bool all = true;
  for (const ParameterSpec& parameter : group.parameters) {
    all = all && parameter.trained;
    if (!parameter.trained) continue;
    if (all) {
      end = parameter.offset;
    } else if (parameter.offset != wire_end || end == 0) {
      end = static_cast<std::int64_t>(align_up(static_cast<Bytes>(end), kAlignment));
    }
    visit(parameter, end);
    end += parameter.shape.elements();
    wire_end = parameter.offset + parameter.shape.elements();
  }
  return all ? group.elements : static_cast<std::int64_t>(align_up(static_cast<Bytes>(end), kAlignment));
}

enum class Neighbours : bool { differ, may_share };

template <typename Spec>
void check_ids(const std::vector<Spec>& specs, const char* kind, Neighbours neighbours) {
  std::set<std::uint32_t> ids;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (neighbours == Neighbours::may_share && i > 0 && specs[i].id == specs[i - 1].id) continue;
    if (!ids.insert(specs[i].id).second) {
      throw BadInput(std::string(kind) + " " + quoted(specs[i].name) + " has id " + std::to_string(specs[i].id) +
                     ", which another one has");
    }
  }
}

using Ranges = std::vector<std::pair<std::int64_t, std::int64_t>>;  // begin, end

// Ranges of all parts of each group, sorted.
std::vector<Ranges> ranges_of(const ModelLayout& layout) {
  std::vector<Ranges> ranges(layout.groups.size());
  for (const LayerSpec& layer : layout.layers) {
    for (const LayerPart& part : layer.parts) {
      ranges[static_cast<std::size_t>(part.group)].emplace_back(part.begin, part.begin + layout.elements_of(part));
    }
  }
  for (Ranges& group : ranges) std::sort(group.begin(), group.end());
  return ranges;
}

// Throws unless every element is in some layer.
void check_covered(const GroupSpec& group, const Ranges& ranges) {
  if (ranges.empty()) throw BadInput("parameter group " + quoted(group.name) + " is part of no layer");
  std::int64_t end = 0;
  for (const auto& range : ranges) {
    if (range.first > end) break;
    end = std::max(end, range.second);
  }
  if (end < group.elements) {
    throw BadInput("parameter group " + quoted(group.name) + ": element " + std::to_string(end) +
                   " is part of no layer");
  }
}

}  // namespace

std::vector<SharedBlock> shared_blocks(const ParameterSpec& parameter) {
  const Shape& own = parameter.shape;
  if (!parameter.share) return {{1, own.elements(), 0, own.elements(), 0, own.elements(), /*devices=*/0}};
  const auto& [whole, axis, ranges, devices] = *parameter.share;
  std::int64_t inner = 1, outer = 1;  // elements of one step along the axis, and how often all of them come
  for (std::size_t i = axis + 1; i < whole.rank(); ++i) inner *= whole[i];
  for (std::size_t i = 0; i < axis; ++i) outer *= whole[i];
  std::vector<SharedBlock> blocks;
  std::int64_t begin = 0;
  for (const auto& [first, count] : ranges) {
    blocks.push_back(
        {outer, count * inner, begin * inner, own[axis] * inner, first * inner, whole[axis] * inner, devices});
    begin += count;
  }
  return blocks;
}

std::int64_t GroupSpec::gradient_elements() const {
  if (std::ranges::all_of(parameters, &ParameterSpec::trained)) return elements;
  return for_each_gradient(*this, [](const ParameterSpec&, std::int64_t) {});
}

bool GroupSpec::has_statistics() const {
  return std::ranges::any_of(parameters, [](const ParameterSpec& each) { return each.trained && each.statistic > 0; });
}

std::vector<std::int64_t> GroupSpec::gradient_offsets() const {
  std::vector<std::int64_t> offsets(parameters.size(), -1);
  for_each_gradient(*this, [&](const ParameterSpec& parameter, std::int64_t offset) {
    offsets[static_cast<std::size_t>(&parameter - parameters.data())] = offset;
  });
  return offsets;
}

std::int64_t ModelLayout::gradient_elements_of(const LayerPart& part) const {
  const GroupSpec& group = groups[static_cast<std::size_t>(part.group)];
  const std::int64_t elements = elements_of(part), gradients = group.gradient_elements();
  return elements == group.elements || gradients == 0 ? gradients : elements;
}

std::int64_t ModelLayout::gradient_elements(LayerIndex layer) const {
  const LayerSpec& spec = layers[static_cast<std::size_t>(layer)];
  std::int64_t elements = 0;
  bool all = true;
  for (const LayerPart& part : spec.parts) {
    const std::int64_t gradients = gradient_elements_of(part);
    all = all && gradients == elements_of(part);
    elements += gradients;
  }
  return all ? spec.elements : elements;  // like the wire, with what may lie between its parts
}

std::optional<std::vector<GradientRange>> ModelLayout::gradient_ranges(const std::vector<LayerPart>& parts) const {
  std::vector<GradientRange> ranges;
  bool alike = true;
  std::int64_t begin = 0;  // of the part's gradients
  for (const LayerPart& part : parts) {
    const GroupSpec& group = groups[static_cast<std::size_t>(part.group)];
    const std::int64_t elements = elements_of(part), gradients = gradient_elements_of(part);
    alike = alike && gradients == elements;
    const auto add = [&](std::int64_t at, std::int64_t count, std::int64_t gradient) {
      const bool joins = !ranges.empty() && ranges.back().begin + ranges.back().elements == at &&
                         ranges.back().gradient + ranges.back().elements == gradient;
      joins ? void(ranges.back().elements += count) : ranges.push_back({at, count, gradient});
    };
    if (gradients == elements) {
      add(part.offset, elements, begin);
    } else {
      for_each_gradient(group, [&](const ParameterSpec& parameter, std::int64_t offset) {
        add(part.offset + parameter.offset, parameter.shape.elements(), begin + offset);
      });
    }
    begin += gradients;
  }
  if (alike) return std::nullopt;
  return ranges;
}

std::int64_t ModelLayout::elements_of(const LayerPart& part) const {
  return part.elements > 0 ? part.elements : groups[static_cast<std::size_t>(part.group)].elements - part.begin;
}

std::vector<std::vector<std::int64_t>> ModelLayout::cuts() const {
  std::vector<std::vector<std::int64_t>> cuts;
  for (const Ranges& ranges : ranges_of(*this)) {
    std::set<std::int64_t> places;
    for (const auto& [begin, end] : ranges) {
      places.insert(begin);
      places.insert(end);
    }
    places.erase(0);
    places.erase(groups[cuts.size()].elements);
    cuts.emplace_back(places.begin(), places.end());
  }
  return cuts;
}

bool ModelLayout::has_statistics() const {
  return std::ranges::any_of(groups, [](const GroupSpec& group) { return group.has_statistics(); });
}

std::vector<int> ModelLayout::uses() const {
  std::vector<int> uses(groups.size());
  for (const LayerSpec& layer : layers) {
    for (const LayerPart& part : layer.parts) ++uses[static_cast<std::size_t>(part.group)];
  }
  return uses;
}

int ModelLayout::further_uses() const {
  int uses = 0;
  std::vector<bool> used(groups.size());
  for (const LayerSpec& layer : layers) {
    for (const LayerPart& part : layer.parts) {
      if (gradient_elements_of(part) == 0) continue;
      uses += used[static_cast<std::size_t>(part.group)] ? 1 : 0;
      used[static_cast<std::size_t>(part.group)] = true;
    }
  }
  return uses;
}

std::int64_t ModelLayout::parameters() const {
  std::int64_t total = 0;
  for (const GroupSpec& group : groups) {
    for (const ParameterSpec& parameter : group.parameters) {
      if (parameter.statistic == 0) total += parameter.shape.elements();
    }
  }
  return total;
}

std::int64_t ModelLayout::trained_parameters() const {
  std::int64_t total = 0;
  for (const GroupSpec& group : groups) {
    for (const ParameterSpec& parameter : group.parameters) {
      if (parameter.trained && parameter.statistic == 0) total += parameter.shape.elements();
    }
  }
  return total;
}

std::int64_t ModelLayout::largest_gradient() const {
  std::int64_t largest = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    largest = std::max(largest, gradient_elements(static_cast<LayerIndex>(i)));
  }
  return largest;
}

std::int64_t ModelLayout::largest_layer() const {
  std::int64_t largest = 0;
  for (const LayerSpec& layer : layers) largest = std::max(largest, layer.elements);
  return largest;
}

void ModelLayout::validate() const {
  std::set<std::string> names;
  for (const GroupSpec& group : groups) validate_group(group, names);
  for (const LayerSpec& layer : layers) validate_layer(layer, *this);
  check_ids(groups, "parameter group", Neighbours::differ);
  check_ids(layers, "layer", Neighbours::may_share);
  const std::vector<Ranges> ranges = ranges_of(*this);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (!exchange || !ranges[i].empty()) check_covered(groups[i], ranges[i]);
  }
}

std::vector<SharedBlock> shared_blocks(const ModelLayout& shares, const ModelLayout& whole, LayerIndex layer) {
  const auto index = static_cast<std::size_t>(layer);
  std::vector<SharedBlock> blocks;
  for (std::size_t i = 0; i < shares.layers[index].parts.size(); ++i) {
    const LayerPart &own = shares.layers[index].parts[i], &its = whole.layers[index].parts[i];
    const std::vector<ParameterSpec>& parameters = shares.groups[static_cast<std::size_t>(own.group)].parameters;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      const ParameterSpec& of_whole = whole.groups[static_cast<std::size_t>(its.group)].parameters[p];
      for (SharedBlock block : shared_blocks(parameters[p])) {
        block.own += own.offset + parameters[p].offset;
        block.whole += its.offset + of_whole.offset;
        blocks.push_back(block);
      }
    }
  }
  return blocks;
}

std::vector<std::pair<std::int64_t, std::int64_t>> padding_of(const ModelLayout& layout, LayerIndex layer) {
  const LayerSpec& spec = layout.layers[static_cast<std::size_t>(layer)];
  std::vector<std::pair<std::int64_t, std::int64_t>> padding;
  std::int64_t end = 0;
  const auto pad = [&](std::int64_t begin) {
    if (begin > end) padding.emplace_back(end, begin);
  };
  for (const LayerPart& part : spec.parts) {
    for (const ParameterSpec& parameter : layout.groups[static_cast<std::size_t>(part.group)].parameters) {
      pad(part.offset + parameter.offset);
      end = part.offset + parameter.offset + parameter.shape.elements();
    }
  }
  pad(spec.elements);
  return padding;
}

}  // namespace l2l

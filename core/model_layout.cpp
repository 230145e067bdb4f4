#include "core/model_layout.h"

#include <algorithm>
#include <set>
#include <utility>

#include "l2l/errors.h"

namespace l2l {
namespace {

constexpr std::size_t kMaxParameters = 256;                   // per group: RngKey::op has 8 bits
constexpr std::int64_t kMaxElements = std::int64_t{1} << 34;  // per parameter: philox() counts blocks of 4 in 32 bits

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
    if (parameter.shape.elements() > kMaxElements) throw BadInput(what + " has more than 2^34 elements");
    end = check_range(parameter.offset, parameter.shape.elements(), end, group.elements, what);
  }
}

void validate_layer(const LayerSpec& layer, const std::vector<GroupSpec>& groups) {
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
    end = check_range(part.offset, group.elements, end, layer.elements, where + ": group " + quoted(group.name));
  }
}

template <typename Spec>
void check_ids(const std::vector<Spec>& specs, const char* kind) {
  std::set<std::uint32_t> ids;
  for (const Spec& spec : specs) {
    if (!ids.insert(spec.id).second) {
      throw BadInput(std::string(kind) + " " + quoted(spec.name) + " has id " + std::to_string(spec.id) +
                     ", which another one has");
    }
  }
}

}  // namespace

int ModelLayout::uses(GroupIndex group) const {
  int count = 0;
  for (const LayerSpec& layer : layers) {
    for (const LayerPart& part : layer.parts) count += part.group == group;
  }
  return count;
}

std::int64_t ModelLayout::parameters() const {
  std::int64_t total = 0;
  for (const GroupSpec& group : groups) {
    for (const ParameterSpec& parameter : group.parameters) total += parameter.shape.elements();
  }
  return total;
}

std::int64_t ModelLayout::largest_layer() const {
  std::int64_t largest = 0;
  for (const LayerSpec& layer : layers) largest = std::max(largest, layer.elements);
  return largest;
}

void ModelLayout::validate() const {
  std::set<std::string> names;
  for (const GroupSpec& group : groups) validate_group(group, names);
  for (const LayerSpec& layer : layers) validate_layer(layer, groups);
  check_ids(groups, "parameter group");
  check_ids(layers, "layer");
  std::vector<bool> used(groups.size());
  for (const LayerSpec& layer : layers) {
    for (const LayerPart& part : layer.parts) used[static_cast<std::size_t>(part.group)] = true;
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (!used[i]) throw BadInput("parameter group " + quoted(groups[i].name) + " is part of no layer");
  }
}

}  // namespace l2l

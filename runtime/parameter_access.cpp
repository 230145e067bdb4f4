#include "runtime/parameter_access.h"

#include <algorithm>
#include <cmath>

#include "l2l/errors.h"

namespace l2l::runtime {
namespace {

struct Place {
  GroupIndex group;
  std::size_t parameter;
  eps::StatePart part;
};

eps::StatePart state_part(ParameterPart part) {
  if (part == ParameterPart::value) return eps::StatePart::master;
  return part == ParameterPart::moment1 ? eps::StatePart::moment1 : eps::StatePart::moment2;
}

// Throws BadInput where it does not exist, or has fewer elements.
Place find(const eps::ParameterStore& store, const std::string& name, ParameterPart part, std::int64_t first,
           std::size_t count) {
  const ModelLayout& layout = store.layout();
  for (std::size_t group = 0; group < layout.groups.size(); ++group) {
    const std::vector<ParameterSpec>& parameters = layout.groups[group].parameters;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const ParameterSpec& found = parameters[i];
      if (found.name != name) continue;
      const std::int64_t elements = found.shape.elements();
      if (first < 0 || first > elements || count > static_cast<std::size_t>(elements - first)) {
        throw BadInput(name + " has " + std::to_string(elements) + " elements; " + std::to_string(count) + " from " +
                       std::to_string(first) + " on are asked for");
      }
      const bool second = part == ParameterPart::moment2;
      if (part != ParameterPart::value && (!found.trained || (second && store.moments() < 2))) {
        throw BadInput(name + (found.trained ? " has one moment alone, which is what the optimizer keeps"
                                             : " is frozen, and has no moments"));
      }
      return {static_cast<GroupIndex>(group), i, state_part(part)};
    }
  }
  throw BadInput("no parameter is called " + name + "; parameters() lists their names");
}

}  // namespace

std::vector<Parameter> list_parameters(const ModelLayout& layout) {
  std::vector<Parameter> all;
  std::vector<bool> listed(layout.groups.size(), false);  // a tied table is a part of two layers
  const auto list = [&](std::size_t group) {
    if (listed[group]) return;
    listed[group] = true;
    for (const ParameterSpec& each : layout.groups[group].parameters) {
      Parameter parameter{each.name, {}, each.trained, each.statistic > 0};
      for (std::size_t d = 0; d < each.shape.rank(); ++d) parameter.shape.push_back(each.shape[d]);
      all.push_back(std::move(parameter));
    }
  };
  // Where layers are exchanged, the order must not follow from the list.
  for (std::size_t i = 0; i < layout.layers.size() && !layout.exchange; ++i) {
    for (const LayerPart& part : layout.layers[i].parts) list(static_cast<std::size_t>(part.group));
  }
  for (std::size_t group = 0; group < layout.groups.size(); ++group) list(group);
  return all;
}

void read_parameter(const eps::ParameterStore& store, eps::StateGather* gather, const std::string& name,
                    ParameterPart part, std::int64_t first, std::span<float> values) {
  const Place place = find(store, name, part, first, values.size());
  if (gather != nullptr) return gather->read(place.group, place.parameter, place.part, first, values);
  store.read(place.group, place.parameter, place.part, first, values);
}

void write_parameter(eps::ParameterStore& store, const std::string& name, ParameterPart part, std::int64_t first,
                     std::span<const float> values) {
  const Place place = find(store, name, part, first, values.size());
  const auto refuse = [&](auto is_wrong, const char* why) {
    const auto wrong = std::find_if(values.begin(), values.end(), is_wrong);
    if (wrong == values.end()) return;
    throw BadInput(name + ": element " + std::to_string(first + (wrong - values.begin())) + why);
  };
  refuse([](float value) { return !std::isfinite(value); }, " would not be finite");
  if (part == ParameterPart::moment2) {
    refuse([](float value) { return value < 0; }, " of the second moment would be negative; it is a mean of squares");
  }
  store.write(place.group, place.parameter, place.part, first, values);
}

}  // namespace l2l::runtime

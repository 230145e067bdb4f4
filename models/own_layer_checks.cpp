#include <algorithm>
#include <map>
#include <set>

#include "l2l/errors.h"
#include "models/own_layers.h"

namespace l2l::models {

std::string name_of(const Layer& layer) {
  return "layer " + std::to_string(layer.id) + (layer.type.empty() ? "" : " (" + layer.type + ")");
}

namespace {

void check_tensors(const std::vector<TensorSpec>& specs, const std::string& key) {
  std::set<std::string> names;
  for (const TensorSpec& spec : specs) {
    const std::string where = key + ": tensor \"" + spec.name + "\"";
    if (spec.name.empty() || !names.insert(spec.name).second) throw BadInput(where + ": needs a name of its own");
    if (spec.shape.size() > 3) throw BadInput(where + ": has more than three dimensions");
    for (const std::int64_t size : spec.shape) {
      if (size < 1) throw BadInput(where + ": a dimension of " + std::to_string(size) + "; it is 1 or more");
    }
    constexpr std::int64_t kMost = std::int64_t{1} << 31;
    const bool indices = spec.element == TensorSpec::Element::i32;
    if (indices && (spec.below < 1 || spec.below >= kMost)) {
      throw BadInput(where + ": indices need `below`, 1 to 2^31 - 1; it is " + std::to_string(spec.below));
    }
    if (!indices && spec.below != 0) throw BadInput(where + ": `below` is for indices");
  }
}

}  // namespace

void check_custom(const ModelOptions& model) {
  const std::string custom = "model.architecture = \"custom\"";
  if (model.blocks.size() < 2) {
    throw BadInput(custom + ": model.blocks lists " + std::to_string(model.blocks.size()) +
                   " layers of a program (l2l/graph.h); it takes two or more");
  }
  for (const Layer& layer : model.blocks) {
    if (layer.build) continue;
    throw BadInput(custom + ": layer " + std::to_string(layer.id) + " of model.blocks has nothing that builds it");
  }
  const Layer& last = model.blocks.back();
  const auto alike = [&](const Layer& layer) { return layer.type == last.type || layer.shares == last.id; };
  if (last.shares || std::count_if(model.blocks.begin(), model.blocks.end(), alike) > 1) {
    throw BadInput(custom +
                   ": the last layer of model.blocks, which the loss follows, needs a type and parameters of its own");
  }
  if (model.inputs.empty()) throw BadInput(custom + ": model.inputs: names no tensor");
  if (!model.loss) throw BadInput(custom + ": model.loss: is not set");
  check_tensors(model.inputs, "model.inputs");
  check_tensors(model.targets, "model.targets");
}

void check_layers(const std::vector<Layer>& layers) {
  constexpr std::uint32_t kMostIds = std::uint32_t{1} << 31;
  std::set<std::uint32_t> ids;
  std::map<std::uint32_t, std::string> owners;  // types of layers that share with no other
  for (const Layer& layer : layers) {
    const std::string where = "model.blocks: " + name_of(layer);
    if (layer.id >= kMostIds) throw BadInput(where + ": its id must be below 2^31");
    if (!ids.insert(layer.id).second) throw BadInput(where + ": another layer has the same id");
    if (!layer.build != layer.type.empty()) {
      throw BadInput(where + (layer.type.empty() ? ": has no type" : ": has a type, but nothing that builds it"));
    }
    if (!layer.shares) {
      owners.emplace(layer.id, layer.type);
      continue;
    }
    const auto owner = owners.find(*layer.shares);
    if (owner == owners.end() || owner->second != layer.type) {
      throw BadInput(where + ": shares the parameters of layer " + std::to_string(*layer.shares) +
                     ", which is no earlier layer of its type with parameters of its own");
    }
  }
}

}  // namespace l2l::models

#include <algorithm>
#include <map>
#include <set>

#include "core/model_layout.h"
#include "l2l/errors.h"
#include "models/architecture.h"
#include "models/own_layers.h"

namespace l2l::models {

std::string name_of(const Layer& layer) {
  return "layer " + std::to_string(layer.id) + (layer.type.empty() ? "" : " (" + layer.type + ")");
}

std::vector<Layer> all_layers(const ModelOptions& model) {
  std::vector<Layer> layers = model.blocks;
  if (model.reserve) layers.insert(layers.end(), model.reserve->layers.begin(), model.reserve->layers.end());
  return layers;
}

namespace {

void check_tensors(const std::vector<TensorSpec>& specs, const std::string& key) {
  std::set<std::string> names;
  for (const TensorSpec& spec : specs) {
    const std::string where = key + ": tensor \"" + spec.name + "\"";
    if (spec.name.empty() || !names.insert(spec.name).second) throw BadInput(where + ": needs a name of its own");
    if (name_of(spec.element).empty()) throw BadInput(where + ": its element type is none of TensorSpec::Element");
    constexpr std::size_t kMostDimensions = Shape::kMaxRank - 1;  // besides that of samples
    if (spec.shape.size() > kMostDimensions) {
      throw BadInput(where + ": has more than " + std::to_string(kMostDimensions) + " dimensions");
    }
    constexpr std::int64_t kMostElements = std::int64_t{1} << 34;
    std::int64_t elements = 1;
    for (const std::int64_t size : spec.shape) {
      if (size < 1) throw BadInput(where + ": a dimension of " + std::to_string(size) + "; it is 1 or more");
      if (size > kMostElements / elements) throw BadInput(where + ": has more than 2^34 elements");
      elements *= size;
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
  const std::string custom = "model.architecture = \"" + model.architecture + "\"";
  if (model.blocks.size() < 2) {
    throw BadInput(custom + ": model.blocks lists " + std::to_string(model.blocks.size()) +
                   " layers of a program (l2l/graph.h); it takes two or more");
  }
  for (const Layer& layer : all_layers(model)) {
    if (layer.build) continue;
    throw BadInput(custom + ": layer " + std::to_string(layer.id) + " has nothing that builds it");
  }
  const Layer& last = model.blocks.back();
  const auto alike = [&](const Layer& layer) { return layer.type == last.type || layer.shares == last.id; };
  if (last.shares || std::ranges::count_if(all_layers(model), alike) > 1) {
    throw BadInput(custom +
                   ": the last layer of model.blocks, which the loss follows, needs a type and parameters of its own");
  }
  if (model.inputs.empty()) throw BadInput(custom + ": model.inputs: names no tensor");
  if (!model.loss) throw BadInput(custom + ": model.loss: is not set");
  constexpr int kMostSums = 1 << 20;
  for (const Metric& metric : model.metrics) {
    if (metric.sums <= kMostSums) continue;
    throw BadInput("model.metrics: \"" + metric.name + "\" has " + std::to_string(metric.sums) + " sums; at most " +
                   std::to_string(kMostSums));
  }
  check_tensors(model.inputs, "model.inputs");
  check_tensors(model.targets, "model.targets");
}

void check_reserve(const ModelOptions& model) {
  if (!model.reserve) return;
  constexpr std::int64_t kMostLayers = 1'000'000, kMostUses = 1'000'000;
  const LayerReserve& reserve = *model.reserve;
  const auto count =
      static_cast<std::int64_t>(model.blocks.size()) - (architecture_of(model.architecture).custom ? 1 : 0);
  if (count < 1) throw BadInput("model.reserve: model.blocks, the list of layers at first, is empty");
  if (reserve.most_layers < count || reserve.most_layers > kMostLayers) {
    throw BadInput("model.reserve: most_layers = " + std::to_string(reserve.most_layers) + "; it is " +
                   std::to_string(count) + ", the layers of the list at first, to " + std::to_string(kMostLayers));
  }
  if (reserve.most_uses < 1 || reserve.most_uses > kMostUses) {
    throw BadInput("model.reserve: most_uses = " + std::to_string(reserve.most_uses) + "; it is 1 to " +
                   std::to_string(kMostUses));
  }
  for (const Layer& layer : all_layers(model)) {
    if (!layer.shares) continue;
    throw BadInput("model.reserve: " + name_of(layer) +
                   " shares the parameters of another; let a list have that one twice (most_uses)");
  }
}

void check_layers(const ModelOptions& model) {
  const std::vector<Layer> layers = all_layers(model);
  const auto blocks = static_cast<std::ptrdiff_t>(model.blocks.size());
  constexpr std::uint32_t kMostIds = (std::uint32_t{1} << 31) - kFirstBlockId;  // others than blocks have ids, too
  std::set<std::uint32_t> ids;
  std::map<std::uint32_t, std::string> owners;  // types of layers that share with no other
  for (const Layer& layer : layers) {
    const std::string where = (&layer - layers.data() < blocks ? "model.blocks: " : "model.reserve: ") + name_of(layer);
    if (layer.id >= kMostIds) throw BadInput(where + ": its id must be below 2^31 - 16");
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

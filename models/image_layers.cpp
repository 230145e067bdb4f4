#include "models/image_layers.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>

#include "l2l/errors.h"
#include "l2l/revbifpn.h"

namespace l2l::models {
namespace {

// Whether fewer than `places` classes have a larger logit than the right one.
Metric right_among_first(const std::string& name, std::ptrdiff_t places) {
  return {
      .name = name,
      .add = [places](std::span<const float> logits, std::span<const TargetValues> targets, std::span<double> sums) {
        const std::int32_t right = targets[0].indices[0];
        if (right < 0) return;
        const float its = logits[static_cast<std::size_t>(right)];
        const auto larger = std::ranges::count_if(logits, [&](float logit) { return logit > its; });
        if (larger < places) sums[0] += 1;
      }};
}

RevbifpnSettings settings_of(const ModelOptions& model, bool has_dropout) {
  RevbifpnSettings settings = revbifpn_settings(model.variant.at(1) - '0');
  if (model.image_size > 0) settings.image = {model.image_size, model.image_size};
  settings.image_channels = model.image_channels;
  settings.classes = model.labels;
  if (has_dropout) settings.dropout = model.dropout;
  const std::int64_t multiple = std::int64_t{4} << (settings.channels.size() - 1);
  if (settings.image[0] % multiple != 0) {
    throw BadInput("model.image_size = " + std::to_string(model.image_size) + ": images of " + model.architecture +
                   " have sides of a multiple of " + std::to_string(multiple) + " pixels");
  }
  if (model.image_channels == 2) {
    throw BadInput("model.image_channels = 2: images have 3 (red, green, blue) or 1 (gray)");
  }
  return settings;
}

}  // namespace

ModelOptions with_image_layers(ModelOptions model, bool has_dropout) {
  if ((!model.blocks.empty() && !model.loss) || model.reserve) {
    throw BadInput("model.blocks: the layers of " + model.architecture +
                   " follow from its keys; a program's own take model.architecture = \"custom\"");
  }
  const RevbifpnSettings settings = settings_of(model, has_dropout);
  model.image_size = settings.image[0];
  model.dropout = settings.dropout;
  if (model.metrics.empty()) model.metrics = {right_among_first("accuracy", 1), right_among_first("accuracy_top5", 5)};
  ModelOptions described = revbifpn(settings, model.reversible);
  model.blocks = std::move(described.blocks);
  model.inputs = std::move(described.inputs);
  model.targets = std::move(described.targets);
  model.loss = std::move(described.loss);
  return model;
}

}  // namespace l2l::models

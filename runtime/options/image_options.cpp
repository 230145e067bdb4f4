#include "runtime/options/image_options.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/error_place.h"
#include "l2l/errors.h"
#include "models/architecture.h"
#include "runtime/options/architecture_defaults.h"

namespace l2l::runtime {
namespace {

std::shared_ptr<const ImageSet> find(const std::vector<std::string>& names, const char* key, const DataOptions& data) {
  return names.empty() ? nullptr : open_image_set(names, key, data.format);
}

Augmentation augmentation_of(const std::string& name) {
  if (name == "shift") return Augmentation::shift;
  return name == "crop" ? Augmentation::crop : Augmentation::none;
}

}  // namespace

ImageSets find_images(const Options& options) {
  if (!models::architecture_of(options.model.architecture).images) return {};
  return {find(options.data.train, "data.train", options.data),
          find(options.data.validation, "data.validation", options.data)};
}

Options with_classes(Options options, const ImageSets& images) {
  const std::shared_ptr<const ImageSet>& tells = images.train ? images.train : images.validation;
  if (!tells) return options;
  ModelOptions& model = options.model;
  const auto set = [&](const char* key) {
    if (!is_set(options, key)) options.given.emplace_back(key);
  };
  const bool counts = !is_set(options, "model.labels") && model.label_names.empty();
  if (counts && tells->class_names().size() == 1) {
    throw BadInput(tells->description() + ": all images lie in one folder, \"" + tells->class_names()[0] +
                       "\", and a folder is a class: give each class one of its own, or name all by model.label_names",
                   of_key(tells->key()));
  }
  if (model.label_names.empty() && !tells->class_names().empty()) {
    model.label_names = tells->class_names();
    set("model.label_names");
  }
  const auto names = static_cast<std::int64_t>(model.label_names.size());
  if (!is_set(options, "model.labels")) {
    model.labels = std::max<std::int64_t>(2, names > 0 ? names : tells->classes());
    set("model.labels");
  }
  if (names == 0 || names == model.labels) return options;
  throw BadInput("model.labels = " + std::to_string(model.labels) + ", but " + tells->description() + " has names of " +
                     std::to_string(names) + " classes: remove it, or name all classes by model.label_names",
                 of_key("model.labels"));
}

std::shared_ptr<const ImageSource> image_source(std::shared_ptr<const ImageSet> images, const Options& options,
                                                bool trains) {
  if (!images) return nullptr;
  const ModelOptions& model = options.model;
  if (!images->class_names().empty() && model.label_names.empty()) {
    throw BadInput(images->description() +
                       ": folders name the classes here, and the training data number theirs: "
                       "set model.label_names to the names in the order of the numbers",
                   of_key("model.label_names"));
  }
  const auto side = static_cast<int>(model.image_size);
  return std::make_shared<ImageSource>(
      std::move(images),
      ImageSettings{.height = side,
                    .width = side,
                    .channels = static_cast<int>(model.image_channels),
                    .augmentation = trains ? augmentation_of(options.data.augment) : Augmentation::none,
                    .seed = options.run.seed,
                    .class_names = model.label_names,
                    .classes = static_cast<std::int32_t>(model.labels)});
}

}  // namespace l2l::runtime

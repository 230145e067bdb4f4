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

bool is_image_format(const std::string& format) {
  return format == "png" || format == "cifar10" || format == "cifar100";
}

// Keys of texts and of transformers, which a model of images does not read. `options`: as they are read, with what
// follows from the architecture.
void check_unused(const Options& given, const Options& options) {
  if (!models::architecture_of(options.model.architecture).images) return;
  const Options plain;
  const auto refuse = [&](const std::string& key) {
    throw BadInput(key + " = " + value_of(given, key) + " is set, but " + options.model.architecture +
                   " has no use for it: remove it");
  };
  for (const char* const key : {"model.layers", "model.hidden", "model.heads", "model.vocabulary", "model.sequence"}) {
    const std::string value = value_of(given, key);
    if (value != value_of(plain, key) && value != value_of(options, key)) refuse(key);
  }
  for (const char* const key : {"model.intermediate", "model.norm_epsilon", "model.activation", "model.tie_embeddings",
                                "model.attention", "data.separator", "data.columns", "data.label", "data.learn",
                                "data.template", "data.buckets", "data.tokenizer", "data.masked", "data.mask_token"}) {
    if (value_of(given, key) != value_of(plain, key)) refuse(key);
  }
  if (options.data.samples != "auto" && options.data.samples != "stream") refuse("data.samples");
  if (options.data.augment != "none" && options.data.train.empty() && options.data.train_source) {
    throw BadInput("data.augment is for image files, and a program's own source augments what it reads: remove it");
  }
}

// Files of images are for models of images, and no others for these.
void check_files(const Options& options) {
  const DataOptions& data = options.data;
  const bool named = !data.train.empty() || !data.source.empty() || !data.validation.empty();
  const bool images = models::architecture_of(options.model.architecture).images;
  const bool format = is_image_format(data.format);
  const auto refuse_format = [&](const std::string& key, const std::string& name) {
    throw BadInput(key + " = \"" + name + "\" is of images, but model.architecture = \"" + options.model.architecture +
                   "\"; set \"revbifpn\"");
  };
  if (!images && format) refuse_format("data.format", data.format);
  for (std::size_t i = 0; i < data.source.size() && !images; ++i) {
    const std::string key = "data.source " + std::to_string(i + 1) + ": format";
    if (is_image_format(data.source[i].format)) refuse_format(key, data.source[i].format);
  }
  if (!images && data.augment != "none") {
    throw BadInput("data.augment = \"" + data.augment + "\" is for images, but model.architecture = \"" +
                   options.model.architecture + "\"; remove it");
  }
  if (!images || !named) return;
  if (!format && data.format != "auto" && data.format != "npy") {
    throw BadInput("data.format = \"" + data.format + "\": " + options.model.architecture +
                   " reads images; set \"auto\", \"png\", \"cifar10\", \"cifar100\" or \"npy\"");
  }
  if (!data.source.empty()) throw BadInput("[[data.source]] mixes text; name all images by data.train");
}

// A batch norm needs two pixels.
void check_batch(const ModelOptions& model, const BatchOptions& batch) {
  constexpr std::int64_t kCoarsest = 32;  // pixels of the image for one of the coarsest scale, along each side
  if (!models::architecture_of(model.architecture).images || batch.micro_batch > 1) return;
  if (model.image_size > kCoarsest) return;
  throw BadInput("batch.micro_batch = 1 with model.image_size = " + std::to_string(model.image_size) +
                 ": the coarsest scale is one pixel, which has no variance to norm it by; set one of them higher");
}

}  // namespace

void check_image_options(const Options& given, const Options& options, const BatchOptions& batch) {
  check_unused(given, options);
  check_files(options);
  check_batch(options.model, batch);
}

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

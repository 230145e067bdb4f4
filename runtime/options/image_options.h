// Options of a model of images: what they may say, the files that they name, and the classes that follow from these.
#pragma once

#include <memory>

#include "l2l/options.h"
#include "runtime/data/image_source.h"
#include "runtime/data/images.h"

namespace l2l::runtime {

// Throws BadInput where keys of other data and models are set for a model of images, or keys of images for another one.
// `options`: `given` with what follows from the architecture.
void check_image_options(const Options& given, const Options& options, const BatchOptions& batch);

struct ImageSets {
  std::shared_ptr<const ImageSet> train, validation;  // those that are named
};

// Of another model: none. Throws BadInput as open_image_set().
ImageSets find_images(const Options& options);

// model.labels and model.label_names where they were not set: the classes of the training data, or else of the
// validation data. Throws BadInput where there are folders for another number of classes.
Options with_classes(Options options, const ImageSets& images);

// Samples of `images`, which may be null, for the model of `options`. Throws BadInput where they have other classes.
std::shared_ptr<const ImageSource> image_source(std::shared_ptr<const ImageSet> images, const Options& options,
                                                bool trains);

}  // namespace l2l::runtime

// Samples of a model of images: numbers [height, width, channels] and a class.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "l2l/data.h"
#include "runtime/data/image_resize.h"
#include "runtime/data/images.h"

namespace l2l::runtime {

// Of data.augment.
enum class Augmentation : std::uint8_t {
  // Scaled so that the image covers what is wanted, of which the middle is cut out.
  none,
  // That, within a border of zeros an eighth as wide as the sides, from which a part of the same size is cut out, and
  // mirrored with probability 1/2 (He et al., "Deep residual learning for image recognition", CVPR 2016, section 4.2).
  shift,
  // A part of 8% to 100% of the area with sides of 3:4 to 4:3, scaled, and mirrored with probability 1/2 (Szegedy et
  // al., "Going deeper with convolutions", CVPR 2015, section 6; as torchvision's RandomResizedCrop, where 10 parts do
  // not fit in the image, the largest in its middle).
  crop,
};

struct ImageSettings {
  int height = 0, width = 0;
  int channels = 3;  // 3: gray is repeated; 1: of color the luma, as PIL's "L" (ITU-R 601-2)
  Augmentation augmentation = Augmentation::none;
  std::uint64_t seed = 0;
  std::vector<std::string> class_names = {};  // folders by their classes; empty: those of the set
  std::int32_t classes = 0;                   // labels are below it; 0: as many as class_names, or else the set has
};

// Tensor 0 of the inputs, f32, f16 or bf16 [height, width, channels]: (v / 255 - mean) / deviation with the means
// 0.485, 0.456, 0.406 and deviations 0.229, 0.224, 0.225 of ImageNet's red, green and blue, or, of gray, 0.449 and
// 0.226. Tensor 0 of the targets, i32: the class. Immutable and thread-safe. What is drawn at random follows from the
// seed and SamplePosition::number.
class ImageSource final : public SampleSource {
 public:
  // Throws BadInput naming key, file, place and value where a label is not below the classes or a folder is none of
  // the names, and for settings that cannot be.
  ImageSource(std::shared_ptr<const ImageSet> images, ImageSettings settings);

  std::uint64_t size() const override { return images_->size(); }
  // Of the images and their classes. Options tell what is made of the images.
  std::uint64_t identity() const override { return identity_; }
  std::int64_t read(const SamplePosition& position, const SampleView& sample) const override;

  const ImageSet& images() const { return *images_; }
  std::int32_t classes() const { return settings_.classes; }

 private:
  struct Scratch;
  struct Placement;

  void choose_classes();
  std::int32_t class_of(std::uint64_t image) const;
  void check_labels() const;
  [[noreturn]] void refuse_folder(std::uint64_t image) const;
  [[noreturn]] void refuse_class(std::uint64_t image) const;
  std::uint64_t hash() const;
  ImageView wanted_channels(const ImageView& image, Scratch& scratch) const;
  ImageView scaled(const ImageView& image, Scratch& scratch) const;
  ImageView random_part(const ImageView& image, std::uint64_t number) const;
  Placement place(std::uint64_t number) const;
  void write_numbers(const ImageView& image, const Placement& placement, std::vector<float>& numbers) const;

  const std::shared_ptr<const ImageSet> images_;
  ImageSettings settings_;
  std::vector<std::int32_t> class_of_;  // by the set's own labels; empty: those are the classes
  std::uint64_t identity_ = 0;
};

}  // namespace l2l::runtime

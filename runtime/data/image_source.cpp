#include "runtime/data/image_source.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "core/error_place.h"
#include "core/hash.h"
#include "core/log.h"
#include "core/philox.h"

namespace l2l::runtime {
namespace {

// What random numbers of an image are drawn for. Attempt a of a part draws as `part` + a.
enum class ImageDraw : std::uint32_t { placement = 0, part = 1 };

constexpr int kAttempts = 10;  // to find a part that fits
constexpr double kLeastArea = 0.08, kWidest = 4.0 / 3.0;
constexpr int kBorder = 8;  // the part of a side that the border of a shift is

// Its layer is one that no model has, and another than that of data_key(): numbers differ from those of weights,
// dropout and the order of samples.
PhiloxBlock draw_image(std::uint64_t seed, std::uint64_t number, std::uint32_t draw) {
  constexpr std::uint32_t kImageLayer = 0xfffffffeu;
  constexpr std::uint64_t kMicrobatches = 1 << 24;  // RngKey::microbatch holds the upper bits of the number
  return philox({seed, static_cast<std::uint32_t>(number), kImageLayer,
                 static_cast<std::uint32_t>((number >> 32) % kMicrobatches), 0},
                draw);
}

double unit_interval(std::uint32_t word) { return static_cast<double>(word) * 0x1p-32; }

// Uniform in 0 to `most`.
int uniform_to(std::uint32_t word, int most) {
  return static_cast<int>(static_cast<std::uint64_t>(word) * (static_cast<std::uint64_t>(most) + 1) >> 32);
}

using Levels = std::array<float, 256>;

Levels levels_of(double mean, double deviation) {
  Levels levels;
  for (std::size_t v = 0; v < levels.size(); ++v) {
    levels[v] = static_cast<float>((static_cast<double>(v) / 255 - mean) / deviation);
  }
  return levels;
}

// The numbers of a channel's bytes. Gray that is repeated is normalized as colors are.
const Levels& levels_of_channel(int channels, int channel) {
  static const std::array<Levels, 3> color{levels_of(0.485, 0.229), levels_of(0.456, 0.224), levels_of(0.406, 0.225)};
  static const Levels gray = levels_of(0.449, 0.226);
  return channels == 1 ? gray : color[static_cast<std::size_t>(channel)];
}

std::uint8_t luma(const std::uint8_t* pixel) {
  return static_cast<std::uint8_t>((pixel[0] * 19595u + pixel[1] * 38470u + pixel[2] * 7471u + 0x8000u) >> 16);
}

// The image scaled to cover [height, width], and the middle of it.
Scaling covering(const ImageShape& image, int height, int width) {
  const std::int64_t h = image.height, w = image.width;
  Scaling scaling{.height = height, .width = width, .part_height = height, .part_width = width};
  const auto scaled_side = [](std::int64_t side, std::int64_t to, std::int64_t from, std::int64_t least) {
    return std::max(least, (2 * side * to + from) / (2 * from));
  };
  if (width * h >= height * w) {
    scaling.height = scaled_side(h, width, w, height);
  } else {
    scaling.width = scaled_side(w, height, h, width);
  }
  scaling.top = (scaling.height - height) / 2;
  scaling.left = (scaling.width - width) / 2;
  return scaling;
}

// The largest part with allowed sides.
ImageView middle_part(const ImageView& image) {
  const int h = image.shape.height, w = image.shape.width;
  const int height = std::min(h, std::max(1, static_cast<int>(std::lround(w * kWidest))));
  const int width = std::min(w, std::max(1, static_cast<int>(std::lround(h * kWidest))));
  return image.part((h - height) / 2, (w - width) / 2, height, width);
}

}  // namespace

// Of a thread, kept so that what is as large as an image is not allocated again.
struct ImageSource::Scratch {
  std::vector<std::uint8_t> pixels, gray, rows, scaled;
  std::vector<float> numbers;
};

// Pixel (y, x) of a sample is that of the image at (y + down, x + right), of a mirrored one from the right.
struct ImageSource::Placement {
  int down = 0, right = 0;
  bool mirrored = false;
};

ImageSource::ImageSource(std::shared_ptr<const ImageSet> images, ImageSettings settings)
    : images_(std::move(images)), settings_(std::move(settings)) {
  constexpr int kMostSide = 1 << 16;
  const auto fits = [](int side) { return side >= 1 && side <= kMostSide; };
  if (!fits(settings_.height) || !fits(settings_.width) || (settings_.channels != 1 && settings_.channels != 3)) {
    throw BadInput("images of " + std::to_string(settings_.height) + " x " + std::to_string(settings_.width) +
                       " pixels and " + std::to_string(settings_.channels) +
                       " channels; sides are 1 to 65536, and channels 1 or 3",
                   of_key(images_->key()));
  }
  choose_classes();
  check_labels();
  identity_ = hash();
}

void ImageSource::choose_classes() {
  const std::vector<std::string>&found = images_->class_names(), &names = settings_.class_names;
  if (settings_.classes == 0) {
    settings_.classes = names.empty() ? images_->classes() : static_cast<std::int32_t>(names.size());
  }
  if (names.empty()) {
    settings_.class_names = found;
    return;
  }
  for (const std::string& folder : found) {
    class_of_.push_back(static_cast<std::int32_t>(std::ranges::find(names, folder) - names.begin()));
  }
}

std::int32_t ImageSource::class_of(std::uint64_t image) const {
  const std::int32_t own = images_->label(image);
  return class_of_.empty() ? own : class_of_[static_cast<std::size_t>(own)];
}

void ImageSource::check_labels() const {
  const auto unknown = static_cast<std::int32_t>(settings_.class_names.size());  // of a folder
  bool differ = images_->size() < 2;
  for (std::uint64_t image = 0; image < images_->size(); ++image) {
    const std::int32_t label = class_of(image);
    if (!class_of_.empty() && label == unknown) refuse_folder(image);
    if (label >= settings_.classes) refuse_class(image);
    differ = differ || label != class_of(0);
  }
  if (differ) return;
  log(LogLevel::warning, images_->key() + ": all " + std::to_string(images_->size()) + " images are of class " +
                             std::to_string(class_of(0)) + ", by which classes cannot be told apart");
}

void ImageSource::refuse_folder(std::uint64_t image) const {
  std::string known;
  for (const std::string& name : settings_.class_names) known += (known.empty() ? "\"" : ", \"") + name + "\"";
  throw BadInput(images_->key() + ": " + images_->place(image) + ": its folder \"" +
                     images_->class_names()[static_cast<std::size_t>(images_->label(image))] +
                     "\" is none of the classes " + known + "; move it there, or add the folder to model.label_names",
                 of_file(images_->file(image), images_->key()));
}

void ImageSource::refuse_class(std::uint64_t image) const {
  const std::string folder =
      images_->class_names().empty()
          ? ""
          : " (folder \"" + images_->class_names()[static_cast<std::size_t>(images_->label(image))] + "\")";
  throw BadInput(images_->key() + ": " + images_->place(image) + ": class " + std::to_string(class_of(image)) + folder +
                     " is not below the number of classes, " + std::to_string(settings_.classes) +
                     "; set model.labels to more, or leave the image out",
                 of_file(images_->file(image), images_->key()));
}

std::uint64_t ImageSource::hash() const {
  std::string facts = to_hex(images_->identity());
  if (!images_->class_names().empty()) {
    for (const std::string& name : settings_.class_names) facts += "\n" + name;
  }
  return hash_of(facts);
}

ImageView ImageSource::wanted_channels(const ImageView& image, Scratch& scratch) const {
  if (settings_.channels == 3 || image.shape.channels == 1) return image;
  const ImageShape shape{image.shape.height, image.shape.width, 1};
  scratch.gray.resize(shape.bytes());
  std::uint8_t* result = scratch.gray.data();
  for (int y = 0; y < shape.height; ++y) {
    const std::uint8_t* const row = image.pixels + static_cast<std::size_t>(y) * image.stride;
    for (int x = 0; x < shape.width; ++x) *result++ = luma(row + 3 * x);
  }
  return ImageView::of(scratch.gray, shape);
}

ImageView ImageSource::scaled(const ImageView& image, Scratch& scratch) const {
  const int height = settings_.height, width = settings_.width;
  if (image.shape.height == height && image.shape.width == width) return image;
  const bool whole = settings_.augmentation == Augmentation::crop;
  const Scaling scaling = whole ? Scaling{height, width, 0, 0, height, width} : covering(image.shape, height, width);
  resize_image(image, scaling, scratch.rows, scratch.scaled);
  return ImageView::of(scratch.scaled, {height, width, image.shape.channels});
}

// Its area is uniform, and so is the logarithm of the ratio of its sides.
ImageView ImageSource::random_part(const ImageView& image, std::uint64_t number) const {
  const int h = image.shape.height, w = image.shape.width;
  for (std::uint32_t attempt = 0; attempt < kAttempts; ++attempt) {
    const PhiloxBlock words = draw_image(settings_.seed, number, static_cast<std::uint32_t>(ImageDraw::part) + attempt);
    const double area = (kLeastArea + (1 - kLeastArea) * unit_interval(words[0])) * h * w;
    const double ratio = std::exp((2 * unit_interval(words[1]) - 1) * std::log(kWidest));
    const auto width = static_cast<int>(std::lround(std::sqrt(area * ratio)));
    const auto height = static_cast<int>(std::lround(std::sqrt(area / ratio)));
    if (width < 1 || height < 1 || width > w || height > h) continue;
    return image.part(uniform_to(words[2], h - height), uniform_to(words[3], w - width), height, width);
  }
  return middle_part(image);
}

ImageSource::Placement ImageSource::place(std::uint64_t number) const {
  if (settings_.augmentation == Augmentation::none) return {};
  const PhiloxBlock words = draw_image(settings_.seed, number, static_cast<std::uint32_t>(ImageDraw::placement));
  Placement placement{.mirrored = words[0] >> 31 != 0};
  if (settings_.augmentation == Augmentation::crop) return placement;
  const int down = settings_.height / kBorder, right = settings_.width / kBorder;
  placement.down = uniform_to(words[1], 2 * down) - down;
  placement.right = uniform_to(words[2], 2 * right) - right;
  return placement;
}

// `image` is as large as the sample; what lies outside of it are zeros.
void ImageSource::write_numbers(const ImageView& image, const Placement& placement, std::vector<float>& numbers) const {
  const int channels = settings_.channels, own = image.shape.channels;
  numbers.assign(ImageShape{settings_.height, settings_.width, channels}.bytes(), 0.0f);
  for (int y = 0; y < settings_.height; ++y) {
    const int from = y + placement.down;
    if (from < 0 || from >= settings_.height) continue;
    const std::uint8_t* const row = image.pixels + static_cast<std::size_t>(from) * image.stride;
    for (int channel = 0; channel < channels; ++channel) {
      const Levels& levels = levels_of_channel(channels, channel);
      const std::uint8_t* const input = row + (own == 3 ? channel : 0);
      float* const result =
          numbers.data() + static_cast<std::size_t>(y) * static_cast<std::size_t>(settings_.width * channels) + channel;
      for (int x = 0; x < settings_.width; ++x) {
        const int column = (placement.mirrored ? settings_.width - 1 - x : x) + placement.right;
        if (column >= 0 && column < settings_.width) result[x * channels] = levels[input[column * own]];
      }
    }
  }
}

std::int64_t ImageSource::read(const SamplePosition& position, const SampleView& sample) const {
  thread_local Scratch scratch;
  if (position.index >= images_->size()) {
    throw BadInput(images_->description() + ": image " + std::to_string(position.index) + " of " +
                   std::to_string(images_->size()) + " is asked for");
  }
  const ImageShape shape = images_->read(position.index, scratch.pixels);
  ImageView image = ImageView::of(scratch.pixels, shape);
  if (settings_.augmentation == Augmentation::crop) image = random_part(image, position.number);
  image = scaled(wanted_channels(image, scratch), scratch);
  write_numbers(image, place(position.number), scratch.numbers);
  sample.set_input(0, scratch.numbers);
  const std::int32_t label = class_of(position.index);
  sample.set_target(0, {&label, 1});
  return 1;
}

}  // namespace l2l::runtime

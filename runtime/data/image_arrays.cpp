#include "runtime/data/image_arrays.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <span>

#include "core/error_place.h"
#include "core/files.h"
#include "core/hash.h"
#include "formats/npy_header.h"
#include "runtime/data/cache.h"

namespace l2l::runtime {
namespace {

constexpr int kCifarSide = 32;
constexpr std::size_t kCifarPlane = kCifarSide * kCifarSide, kCifarImage = 3 * kCifarPlane;

std::size_t label_bytes(Cifar kind) { return kind == Cifar::ten ? 1 : 2; }  // the last of which is the label
std::size_t record_bytes(Cifar kind) { return label_bytes(kind) + kCifarImage; }

// Images or labels of a file, numbered in all files.
struct ArrayPart {
  std::string file;
  std::uint64_t first = 0, end = 0;
  Bytes begin = 0;                             // of the first in the file
  std::unique_ptr<const InputFile> open = {};  // null: opened where it is read
};

const ArrayPart& part_of(const std::vector<ArrayPart>& parts, std::uint64_t number) {
  return *std::ranges::partition_point(parts, [&](const ArrayPart& part) { return part.end <= number; });
}

std::string place_in(const std::vector<ArrayPart>& parts, std::uint64_t number, const char* name) {
  const ArrayPart& part = part_of(parts, number);
  return part.file + ": " + name + " " + std::to_string(number - part.first);
}

// Images of `stride` bytes each. Nothing is mapped: a file that becomes shorter is an error and no signal.
class ArraySet : public ImageSet {
 public:
  ImageShape shape(std::uint64_t) const final { return shape_; }

 protected:
  using ImageSet::ImageSet;

  // Keeps `input` open, unless there are more files than a process may have open.
  void add(std::unique_ptr<const InputFile> input, std::uint64_t images, Bytes begin, std::size_t files) {
    constexpr std::size_t kMostOpen = 100;
    const std::uint64_t first = parts_.empty() ? 0 : parts_.back().end;
    parts_.push_back({input->path().string(), first, first + images, begin, {}});
    if (files <= kMostOpen) parts_.back().open = std::move(input);
  }

  // `pixels.size()` bytes of an image, from its byte `from` on.
  void read_part(std::uint64_t image, Bytes stride, Bytes from, std::span<std::uint8_t> pixels) const {
    const ArrayPart& part = part_of(parts_, image);
    const Bytes offset = part.begin + (image - part.first) * stride + from;
    naming_key(key_, [&] {
      if (part.open) return part.open->read(offset, std::as_writable_bytes(pixels));
      InputFile(part.file).read(offset, std::as_writable_bytes(pixels));
    });
  }

  // Of all that `files` contain, or what is remembered of files of the same names, sizes and times.
  void identify(const std::vector<std::string>& files) {
    std::string facts = "images";
    for (const std::string& file : files) facts += "\n" + file_facts(file);
    identity_ = remembered_hash(facts, [&] {
      Hash64 hash;
      for (const std::string& file : files) {
        const InputFile input(file);
        const std::array<std::uint64_t, 2> contents{input.bytes(), input.hash(0, input.bytes())};
        hash.update(std::as_bytes(std::span(contents)));
      }
      return hash.value();
    });
  }

  ImageShape shape_;
  std::vector<ArrayPart> parts_;
};

class CifarSet final : public ArraySet {
 public:
  CifarSet(const std::vector<DataFile>& files, Cifar kind, const std::string& key)
      : ArraySet(key, paths_of(files)), kind_(kind) {
    shape_ = {kCifarSide, kCifarSide, 3};
    classes_ = kind == Cifar::ten ? 10 : 100;
    for (const DataFile& file : files) {
      auto input = std::make_unique<const InputFile>(file.path);
      const std::uint64_t records = whole_records(*input);
      add_labels(*input, records);
      add(std::move(input), records, 0, files.size());
    }
    identify(paths_of(files));
  }

  ImageShape read(std::uint64_t image, std::vector<std::uint8_t>& pixels) const override {
    std::array<std::uint8_t, kCifarImage> planes;
    read_part(image, record_bytes(kind_), label_bytes(kind_), planes);
    pixels.resize(kCifarImage);
    for (std::size_t pixel = 0; pixel < kCifarPlane; ++pixel) {
      for (std::size_t color = 0; color < 3; ++color) pixels[3 * pixel + color] = planes[color * kCifarPlane + pixel];
    }
    return shape_;
  }
  std::string place(std::uint64_t image) const override { return place_in(parts_, image, "record"); }
  std::string file(std::uint64_t image) const override { return part_of(parts_, image).file; }

 private:
  std::uint64_t whole_records(const InputFile& input) const {
    const Bytes record = record_bytes(kind_);
    if (input.bytes() > 0 && input.bytes() % record == 0) return input.bytes() / record;
    throw CorruptFile(input.path().string(), std::to_string(input.bytes()) + " bytes, which are no whole records of " +
                                                 std::to_string(record) + " (data.format = \"" +
                                                 (kind_ == Cifar::ten ? "cifar10" : "cifar100") + "\")");
  }
  void add_labels(const InputFile& input, std::uint64_t records) {
    for (std::uint64_t record = 0; record < records; ++record) {
      std::byte label{};
      input.read(record * record_bytes(kind_) + label_bytes(kind_) - 1, {&label, 1});
      labels_.push_back(std::to_integer<std::int32_t>(label));
    }
  }

  const Cifar kind_;
};

// An integer of any size and order of bytes; what lies above the largest int64 is that.
std::int64_t integer_of(std::span<const std::uint8_t> bytes, const formats::NpyHeader& header) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bits = bits << 8 | bytes[header.type[0] == '>' ? i : bytes.size() - 1 - i];
  }
  if (header.kind() == 'u') return static_cast<std::int64_t>(std::min<std::uint64_t>(bits, INT64_MAX));
  const int unused = 64 - 8 * static_cast<int>(bytes.size());
  return static_cast<std::int64_t>(bits << unused) >> unused;
}

class NpyImages final : public ArraySet {
 public:
  NpyImages(const std::vector<DataFile>& files, const std::string& key) : ArraySet(key, paths_of(files)) {
    for (const DataFile& file : files) {
      auto input = std::make_unique<const InputFile>(file.path);
      const formats::NpyHeader header = formats::read_npy_header(*input);
      if (header.shape.size() == 1) {
        add_labels(*input, header);
      } else {
        add_images(std::move(input), header, files.size());
      }
    }
    require_pairs();
    classes_ = *std::ranges::max_element(labels_) + 1;
    identify(paths_of(files));
  }

  ImageShape read(std::uint64_t image, std::vector<std::uint8_t>& pixels) const override {
    pixels.resize(shape_.bytes());
    read_part(image, shape_.bytes(), 0, pixels);
    return shape_;
  }
  std::string place(std::uint64_t image) const override { return place_in(label_parts_, image, "element"); }
  std::string file(std::uint64_t image) const override { return part_of(label_parts_, image).file; }

 private:
  void add_images(std::unique_ptr<const InputFile> input, const formats::NpyHeader& header, std::size_t files) {
    const std::string name = input->path().string();
    const ImageShape shape = shape_of(name, header);
    if (!parts_.empty() && shape != shape_) {
      refuse_array(name, "has images of " + text_of_shape(shape) + ", those of " + parts_.front().file + " are " +
                             text_of_shape(shape_) + "; all arrays have images of one size");
    }
    shape_ = shape;
    add(std::move(input), header.shape[0], header.begin, files);
  }

  static std::string text_of_shape(const ImageShape& shape) {
    return std::to_string(shape.height) + " x " + std::to_string(shape.width) + " x " + std::to_string(shape.channels);
  }

  [[noreturn]] void refuse_array(const std::string& file, const std::string& reason) const {
    throw BadInput(key_ + ": " + file + ": " + reason, of_file(file, key_));
  }

  ImageShape shape_of(const std::string& file, const formats::NpyHeader& header) const {
    constexpr std::uint64_t kMostPixels = 1 << 28;
    const std::vector<std::uint64_t>& shape = header.shape;
    if (shape.size() != 3 && shape.size() != 4) {
      refuse_array(file, "has " + std::to_string(shape.size()) +
                             " dimensions; images are [N, H, W] or [N, H, W, C], and their classes [N]");
    }
    if (header.kind() != 'u' || header.element_bytes() != 1) {
      refuse_array(file, "images of type " + header.type + "; they are of uint8 (|u1), 0 to 255");
    }
    if (header.fortran_order) {
      refuse_array(file, "is in Fortran's order; write numpy.ascontiguousarray() of it");
    }
    const std::uint64_t channels = shape.size() == 4 ? shape[3] : 1;
    if (channels != 1 && channels != 3) {
      refuse_array(file, "has " + std::to_string(channels) + " channels in its last dimension, and not 1 or 3; of " +
                             "[N, C, H, W] write images.transpose(0, 2, 3, 1)");
    }
    if (shape[1] == 0 || shape[2] == 0 || shape[1] > kMostPixels || shape[2] > kMostPixels / shape[1]) {
      refuse_array(file, "has images of " + std::to_string(shape[1]) + " x " + std::to_string(shape[2]) +
                             " pixels; 1 to 2^28 are read");
    }
    return {static_cast<int>(shape[1]), static_cast<int>(shape[2]), static_cast<int>(channels)};
  }

  void add_labels(const InputFile& input, const formats::NpyHeader& header) {
    const std::string name = input.path().string();
    if (header.kind() != 'i' && header.kind() != 'u') {
      refuse_array(name, "labels of type " + header.type + "; they are integers: write labels.astype('int64')");
    }
    std::vector<std::uint8_t> bytes(input.bytes() - header.begin);
    input.read(header.begin, std::as_writable_bytes(std::span(bytes)));
    const std::size_t width = header.element_bytes(), first = labels_.size();
    for (std::size_t at = 0; at < bytes.size(); at += width) {
      const std::int64_t label = integer_of(std::span(bytes).subspan(at, width), header);
      if (label < 0 || label >= std::numeric_limits<std::int32_t>::max()) {
        refuse_array(name, "element " + std::to_string(at / width) + ": class " + std::to_string(label) +
                               "; classes are numbered from 0");
      }
      labels_.push_back(static_cast<std::int32_t>(label));
    }
    label_parts_.push_back({name, first, labels_.size(), header.begin, {}});
  }

  void require_pairs() const {
    const std::uint64_t images = parts_.empty() ? 0 : parts_.back().end;
    const auto refuse_arrays = [&](const std::string& reason) {
      throw BadInput(description_ + ": " + reason,
                     of_file(parts_.empty() ? label_parts_.front().file : parts_.front().file, key_));
    };
    if (images == 0) refuse_arrays("no images; name also an array of uint8 [N, H, W] or [N, H, W, C]");
    if (labels_.empty()) refuse_arrays("no labels; name also an array of integers [N], the classes of the images");
    if (labels_.size() == images) return;
    refuse_arrays(std::to_string(images) + " images, but " + std::to_string(labels_.size()) +
                  " labels; name the arrays of both, of as many elements");
  }

  std::vector<ArrayPart> label_parts_;
};

}  // namespace

std::shared_ptr<const ImageSet> open_cifar(const std::vector<DataFile>& files, Cifar kind, const std::string& key) {
  return std::make_shared<CifarSet>(files, kind, key);
}

std::shared_ptr<const ImageSet> open_npy_images(const std::vector<DataFile>& files, const std::string& key) {
  return std::make_shared<NpyImages>(files, key);
}

std::optional<Cifar> cifar_kind(const std::vector<DataFile>& files) {
  for (const Cifar kind : {Cifar::ten, Cifar::hundred}) {
    const auto fits = [&](const DataFile& file) { return file.bytes > 0 && file.bytes % record_bytes(kind) == 0; };
    if (std::ranges::all_of(files, fits)) return kind;
  }
  return std::nullopt;
}

}  // namespace l2l::runtime

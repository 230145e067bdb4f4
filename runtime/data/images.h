// Images with a class each, as files hold them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "formats/png_file.h"
#include "l2l/errors.h"
#include "runtime/data/data_files.h"

namespace l2l::runtime {

using formats::ImageShape;

std::vector<std::string> paths_of(const std::vector<DataFile>& files);

// Immutable and thread-safe. Errors are BadInput and name the key ("data.train"), the file and the way out.
class ImageSet {
 public:
  virtual ~ImageSet() = default;
  ImageSet(const ImageSet&) = delete;
  ImageSet& operator=(const ImageSet&) = delete;

  std::uint64_t size() const { return labels_.size(); }  // at least 1
  // A number, from 0. Where there are class_names(), the place of the image's folder in these.
  std::int32_t label(std::uint64_t image) const { return labels_[image]; }
  // The folders in which images lie, sorted by bytes; empty: the files have numbers of classes.
  const std::vector<std::string>& class_names() const { return class_names_; }
  // Classes that the files themselves tell of: folders; CIFAR's 10 or 100; else the largest label and one.
  std::int32_t classes() const { return classes_; }
  // Of arrays and CIFAR: XXH64 of what the files contain. Of PNG files, which are not read: XXH64 of each one's folder,
  // name and size.
  std::uint64_t identity() const { return identity_; }
  virtual Bytes bytes() const { return labels_.capacity() * sizeof labels_[0]; }  // of memory
  const std::string& key() const { return key_; }
  const std::string& description() const { return description_; }  // key and files, for messages

  virtual ImageShape shape(std::uint64_t image) const = 0;
  // Makes `pixels` the image.
  virtual ImageShape read(std::uint64_t image, std::vector<std::uint8_t>& pixels) const = 0;
  // Where the label stands, for messages: "a.bin: record 7".
  virtual std::string place(std::uint64_t image) const = 0;
  virtual std::string file(std::uint64_t image) const = 0;  // in which the label stands

 protected:
  ImageSet(const std::string& key, const std::vector<std::string>& files);

  const std::string key_, description_;
  std::vector<std::int32_t> labels_;
  std::vector<std::string> class_names_;
  std::int32_t classes_ = 0;
  std::uint64_t identity_ = 0;
};

// Calls `read`. What it throws of a file without a key gets it and, where the file is damaged, the way out.
template <typename Read>
auto naming_key(const std::string& key, const Read& read) {
  try {
    return read();
  } catch (const OutOfMemory&) {
    throw;
  } catch (const BadInput& error) {
    if (!error.place().key.empty()) throw;
    const char* const way_out = error.code() == ErrorCode::corrupt_file ? "; write it again, or leave it out" : "";
    throw BadInput(key + ": " + error.what() + way_out,
                   {.file = error.place().file, .field = error.place().field, .key = key});
  }
}

// `patterns`: as in find_files(); a directory stands for all files *.png below it. Their order is that of the images.
// `format`:
//   "png"       PNG files, the class of which is the name of the folder that they lie in
//   "cifar10"   CIFAR-10's binary files: records of a byte, the class, and 32 x 32 values of red, of green, of blue
//   "cifar100"  CIFAR-100's: records of a byte that is not used, a byte, the (fine) class, and the same values
//   "npy"       NumPy's arrays: of uint8 [N, H, W] or [N, H, W, C], C 1 or 3, and of integers [N], the classes; several
//               of either kind lie one behind the other
//   "auto"      by the names of the files
// Krizhevsky, "Learning multiple layers of features from tiny images", 2009 (CIFAR).
std::shared_ptr<const ImageSet> open_image_set(const std::vector<std::string>& patterns, const std::string& key,
                                               const std::string& format);

}  // namespace l2l::runtime

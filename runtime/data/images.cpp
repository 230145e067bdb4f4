#include "runtime/data/images.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <span>

#include "core/error_place.h"
#include "core/hash.h"
#include "runtime/data/data_files.h"
#include "runtime/data/image_arrays.h"
#include "runtime/data/path_pattern.h"

namespace l2l::runtime {
namespace {

namespace fs = std::filesystem;

std::string class_folder(const std::string& file) {
  return fs::absolute(file).lexically_normal().parent_path().filename().string();
}

std::string lower_extension(const std::string& file) {
  std::string extension = fs::path(file).extension().string();
  for (char& c : extension) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return extension;
}

// Decoded when they are read.
class PngSet final : public ImageSet {
 public:
  PngSet(const std::vector<DataFile>& files, const std::string& key)
      : ImageSet(key, paths_of(files)), files_(paths_of(files)) {
    std::map<std::string, std::int32_t> folders;
    std::vector<std::string> folder_of;
    for (const std::string& file : files_) folders.emplace(folder_of.emplace_back(class_folder(file)), 0);
    for (auto& [name, number] : folders) {
      number = static_cast<std::int32_t>(class_names_.size());
      class_names_.push_back(name);
    }
    classes_ = static_cast<std::int32_t>(class_names_.size());
    Hash64 hash;
    formats::png_shape(files_[0]);  // before a run begins, as are those that may be something else
    for (const DataFile& file : files) {
      const std::string& folder = folder_of[labels_.size()];
      if (lower_extension(files_[labels_.size()]) != ".png") formats::png_shape(file.path);
      labels_.push_back(folders.at(folder));
      const std::string facts = folder + "/" + file.path.filename().string() + " " + std::to_string(file.bytes) + "\n";
      hash.update(std::as_bytes(std::span(facts)));
    }
    identity_ = hash.value();
  }

  ImageShape shape(std::uint64_t image) const override {
    return naming_key(key_, [&] { return formats::png_shape(files_[image]); });
  }
  ImageShape read(std::uint64_t image, std::vector<std::uint8_t>& pixels) const override {
    return naming_key(key_, [&] { return formats::read_png(files_[image], pixels); });
  }
  std::string place(std::uint64_t image) const override { return files_[image]; }
  std::string file(std::uint64_t image) const override { return files_[image]; }
  Bytes bytes() const override {
    Bytes names = 0;
    for (const std::string& file : files_) names += sizeof file + file.capacity() + 1;
    return ImageSet::bytes() + names;
  }

 private:
  const std::vector<std::string> files_;
};

// Throws where files have different extensions.
void require_one_kind(const std::vector<std::string>& names, const std::string& key) {
  const auto other = std::ranges::find_if(
      names, [&](const std::string& name) { return lower_extension(name) != lower_extension(names.front()); });
  if (other == names.end()) return;
  throw BadInput(key + ": " + names.front() + " and " + *other +
                     " are not of one kind; name files of one kind, or say by data.format which one they are",
                 of_file(*other, key));
}

std::string format_by_names(const std::vector<DataFile>& files, const std::string& key) {
  const std::vector<std::string> names = paths_of(files);
  require_one_kind(names, key);
  const std::string extension = lower_extension(names.front());
  if (extension == ".png") return "png";
  if (extension == ".npy") return "npy";
  if (extension != ".bin") {
    throw BadInput(key + ": " + names.front() + ": no image file by its name (.png, .npy, .bin); set data.format to " +
                       "\"png\", \"npy\", \"cifar10\" or \"cifar100\", or convert it",
                   of_file(names.front(), key));
  }
  if (const std::optional<Cifar> kind = cifar_kind(files)) return *kind == Cifar::ten ? "cifar10" : "cifar100";
  throw BadInput(key + ": " + names.front() +
                     ": neither CIFAR-10's records of 3073 bytes nor CIFAR-100's of 3074 fill all the files; is one of "
                     "them cut short, or no binary version of CIFAR?",
                 of_file(names.front(), key));
}

// Appends the PNG files in `folder` and below it. Links to folders are followed, unless they lead to one of `above`.
void add_png_files(const fs::path& folder, std::vector<fs::path>& above, std::vector<std::string>& names) {
  std::error_code error;
  const fs::path canonical = fs::canonical(folder, error);
  if (std::ranges::find(above, canonical) != above.end()) return;
  above.push_back(canonical);
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    const fs::path& path = entry->path();
    if (path.filename().string().starts_with('.')) continue;
    if (entry->is_directory(ignored)) {
      add_png_files(path, above, names);
    } else if (lower_extension(path.string()) == ".png") {
      names.push_back(path.string());
    }
  }
  if (error) throw BadInput(folder.string() + ": cannot be searched: " + error.message());
  above.pop_back();
}

std::vector<std::string> png_files_below(const std::string& folder) {
  std::vector<fs::path> above;
  std::vector<std::string> names;
  add_png_files(folder, above, names);
  std::ranges::sort(names);
  return names;
}

// Names of files; of a directory those of its PNG files, so that no other image format may have directories.
std::vector<std::string> without_directories(const std::vector<std::string>& patterns, const std::string& key,
                                             const std::string& format) {
  std::vector<std::string> names;
  for (const std::string& pattern : patterns) {
    const std::vector<std::string> found = expand_pattern(pattern);
    if (found.empty()) names.push_back(pattern);  // find_files() says what is wrong
    for (const std::string& name : found) {
      std::error_code ignored;
      if (!fs::is_directory(name, ignored) || (format != "auto" && format != "png")) {
        names.push_back(name);
        continue;
      }
      const std::vector<std::string> below = naming_key(key, [&] { return png_files_below(name); });
      if (below.empty()) {
        throw BadInput(key + ": " + name + ": no file *.png lies in this directory or below it; name another, or files",
                       of_file(name, key));
      }
      names.insert(names.end(), below.begin(), below.end());
    }
  }
  return names;
}

std::string key_and_files(const std::string& key, const std::vector<std::string>& files) {
  return key + " (" + files.front() +
         (files.size() > 1 ? " and " + std::to_string(files.size() - 1) + " more)" : std::string(")"));
}

}  // namespace

std::vector<std::string> paths_of(const std::vector<DataFile>& files) {
  std::vector<std::string> names;
  for (const DataFile& file : files) names.push_back(file.path.string());
  return names;
}

ImageSet::ImageSet(const std::string& key, const std::vector<std::string>& files)
    : key_(key), description_(key_and_files(key, files)) {}

std::shared_ptr<const ImageSet> open_image_set(const std::vector<std::string>& patterns, const std::string& key,
                                               const std::string& format) {
  const std::vector<DataFile> files = find_files(without_directories(patterns, key, format), key);
  const std::string kind = format == "auto" ? format_by_names(files, key) : format;
  return naming_key(key, [&]() -> std::shared_ptr<const ImageSet> {
    if (kind == "png") return std::make_shared<PngSet>(files, key);
    if (kind == "npy") return open_npy_images(files, key);
    if (kind == "cifar10") return open_cifar(files, Cifar::ten, key);
    if (kind == "cifar100") return open_cifar(files, Cifar::hundred, key);
    throw BadInput(key + ": data.format = \"" + format +
                       "\" is none of images; \"png\", \"npy\", \"cifar10\", \"cifar100\" and \"auto\" are",
                   of_key("data.format"));
  });
}

}  // namespace l2l::runtime

#include "formats/safetensors.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "core/hash.h"
#include "formats/safetensors_header.h"
#include "l2l/errors.h"

namespace l2l::formats {

static_assert(std::endian::native == std::endian::little, "safetensors data are little-endian");

namespace {

constexpr Bytes kMostHeaderBytes = 100'000'000;  // as the reference implementation
constexpr Bytes kLengthBytes = 8;
constexpr Bytes kMostPointer = 1024;  // as the specification of Git LFS

std::string read_header(const InputFile& file) {
  const std::string name = file.path().string();
  if (file.bytes() < kLengthBytes) throw CorruptFile(name, std::to_string(file.bytes()) + " bytes; too short");
  std::uint64_t length = 0;
  file.read(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > kMostHeaderBytes || length > file.bytes() - kLengthBytes) {
    if (file.bytes() <= kMostPointer && is_git_lfs_pointer(file.text())) throw CorruptFile(name, kGitLfsPointer);
    throw CorruptFile(name, "header",
                      "a length of " + std::to_string(length) + " bytes in a file of " + std::to_string(file.bytes()) +
                          "; at most 100 MB");
  }
  std::string header(length, '\0');
  file.read(kLengthBytes, std::as_writable_bytes(std::span(header)));
  return header;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& file) : file_(file) {
  const std::string json = read_header(file_);
  data_start_ = kLengthBytes + json.size();
  SafetensorsHeader header = parse_safetensors_header(json, file_.bytes() - data_start_, file.string());
  tensors_ = std::move(header.tensors);
  metadata_ = std::move(header.metadata);
  by_name_.resize(tensors_.size());
  std::iota(by_name_.begin(), by_name_.end(), std::size_t{0});
  // By merging: the order of names in a file often makes std::sort() fall back to a heap, at twice the time.
  std::stable_sort(by_name_.begin(), by_name_.end(),
                   [&](std::size_t a, std::size_t b) { return tensors_[a].name < tensors_[b].name; });
  const auto twice = std::adjacent_find(by_name_.begin(), by_name_.end(), [&](std::size_t a, std::size_t b) {
    return tensors_[a].name == tensors_[b].name;
  });
  if (twice != by_name_.end()) {
    throw CorruptFile(file.string(), "tensor " + show_name(tensors_[*twice].name), "stands twice");
  }
}

const TensorEntry* SafetensorsFile::find(std::string_view name) const {
  const auto place = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                      [&](std::size_t index, std::string_view n) { return tensors_[index].name < n; });
  if (place == by_name_.end() || tensors_[*place].name != name) return nullptr;
  return &tensors_[*place];
}

void SafetensorsFile::read(const TensorEntry& tensor, std::span<float> destination) const {
  if (tensor.end - tensor.begin != destination.size_bytes()) {
    throw CorruptFile(path().string(), "tensor " + show_name(tensor.name),
                      "has " + std::to_string((tensor.end - tensor.begin) / sizeof(float)) + " elements, not " +
                          std::to_string(destination.size()));
  }
  read(tensor, 0, destination);
}

void SafetensorsFile::read(const TensorEntry& tensor, std::int64_t first, std::span<float> destination) const {
  if (tensor.dtype != "F32") {
    throw CorruptFile(path().string(), "tensor " + show_name(tensor.name), "has dtype " + tensor.dtype + ", not F32");
  }
  read_raw(tensor, first, std::as_writable_bytes(destination));
}

std::uint64_t SafetensorsFile::hash_of_samples(const TensorEntry& tensor) const {
  constexpr Bytes kSamples = 16, kSample = 4 * kKiB;
  const Bytes bytes = tensor.end - tensor.begin;
  if (bytes <= kSamples * kSample) return hash(tensor);
  Hash64 all;
  for (Bytes i = 0; i < kSamples; ++i) {
    const Bytes place = (bytes - kSample) / (kSamples - 1) * i;
    const std::uint64_t one = file_.hash(data_start_ + tensor.begin + place, kSample);
    all.update(std::as_bytes(std::span(&one, 1)));
  }
  return all.value();
}

void SafetensorsFile::read_raw(const TensorEntry& tensor, std::int64_t first, std::span<std::byte> destination) const {
  const Bytes begin = static_cast<Bytes>(first) * safetensors_element(tensor.dtype), bytes = tensor.end - tensor.begin;
  if (begin > bytes || destination.size() > bytes - begin) {
    throw CorruptFile(path().string(), "tensor " + show_name(tensor.name), "has fewer elements than are read from it");
  }
  file_.read(data_start_ + tensor.begin + begin, destination);
}

}  // namespace l2l::formats

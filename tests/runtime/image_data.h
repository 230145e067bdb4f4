// Files of images, and what a source makes of them.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "core/files.h"
#include "l2l/graph.h"
#include "runtime/data/image_source.h"

namespace l2l::runtime::image_data {

// What Pillow reads and writes (tests/fixtures/make_image_fixtures.py).
inline const nlohmann::json& fixture() {
  static const nlohmann::json all = parse_json(InputFile(std::filesystem::path(L2L_FIXTURES) / "images.json").text());
  return all;
}

inline std::vector<std::uint8_t> bytes_of(const nlohmann::json& hexadecimal) {
  const auto text = hexadecimal.get<std::string>();
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    bytes.push_back(static_cast<std::uint8_t>(std::stoi(text.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

inline std::string text_of(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

inline std::string png(std::size_t number) { return text_of(bytes_of(fixture().at("files").at(number).at("file"))); }

// A file of NumPy: `shape` as in "3, 4".
inline std::string npy(const std::string& type, const std::string& shape, const std::string& elements,
                       const char* fortran = "False") {
  std::string header = "{'descr': '" + type + "', 'fortran_order': " + fortran + ", 'shape': (" + shape + "), }";
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  return "\x93NUMPY\x01" + std::string(1, '\0') + static_cast<char>(header.size() & 255) +
         static_cast<char>(header.size() >> 8) + header + elements;
}

// Records of CIFAR, `before` each of which are as many bytes as it has; pixels follow from `number`, that of the first.
inline std::uint8_t cifar_value(std::size_t number, std::size_t byte) {
  return static_cast<std::uint8_t>((number * 31 + byte * 7 + byte / 1024 * 50) % 251);
}

inline std::string cifar(const std::vector<std::string>& before, std::size_t number = 0) {
  std::string records;
  for (const std::string& label : before) {
    records += label;
    for (std::size_t byte = 0; byte < 3072; ++byte) records += static_cast<char>(cifar_value(number, byte));
    ++number;
  }
  return records;
}

struct Read {
  std::vector<float> numbers;
  std::int32_t label = -7;
  bool operator==(const Read&) const = default;
};

inline Read read(const SampleSource& source, const ImageSettings& settings, std::uint64_t index, std::uint64_t number) {
  const std::vector<TensorSpec> inputs{{"image", {settings.height, settings.width, settings.channels}}};
  const std::vector<TensorSpec> targets{{"class", {}, TensorSpec::Element::i32, 1000}};
  Read result;
  result.numbers.resize(static_cast<std::size_t>(settings.height * settings.width * settings.channels));
  std::vector<std::int32_t> words(result.numbers.size());
  SampleView view{words, {&result.label, 1}};
  view.input_tensors = inputs;
  view.target_tensors = targets;
  if (source.read({.index = index, .epoch = 0, .number = number}, view) != 1) result.label = -8;
  std::memcpy(result.numbers.data(), words.data(), words.size() * sizeof(float));
  return result;
}

// What a byte of a channel becomes; channel -1: gray.
inline float normalized(int value, int channel) {
  constexpr double kMeans[] = {0.449, 0.485, 0.456, 0.406}, kDeviations[] = {0.226, 0.229, 0.224, 0.225};
  return static_cast<float>((value / 255.0 - kMeans[channel + 1]) / kDeviations[channel + 1]);
}

}  // namespace l2l::runtime::image_data

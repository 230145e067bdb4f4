// A small RevBiFPN (l2l/revbifpn.h), a feature pyramid that keeps no activations, on images of CIFAR-10's binary files:
//   g++ pyramid.cpp $(pkg-config --cflags --libs l2l) -Wl,-rpath,$(pkg-config --variable=libdir l2l) -o pyramid
//   ./pyramid data_batch_1.bin test_batch.bin STEPS [none | float | fixed [SEED]]
// A file has one record of 3,073 bytes for each image: its class, 0 to 9, and 32 x 32 values of red, of green, of blue.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "l2l/l2l.h"

namespace {

constexpr std::size_t kSide = 32, kPixels = kSide * kSide, kRecord = 1 + 3 * kPixels;

std::vector<std::uint8_t> read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<std::uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
  if (bytes.empty() || bytes.size() % kRecord != 0) throw std::runtime_error(std::string(path) + ": no CIFAR-10 file");
  return bytes;
}

// Whether the n-th image that is drawn is mirrored: a function of n, so that a run that is resumed sees the same.
bool mirrored(std::uint64_t number) {
  std::uint64_t bits = (number + 1) * 0x9E3779B97F4A7C15u;
  bits = (bits ^ (bits >> 31)) * 0x94D049BB133111EBu;
  return (bits >> 63) != 0;
}

std::shared_ptr<const l2l::SampleSource> source_of(const std::vector<std::uint8_t>& bytes, bool augments,
                                                   std::uint64_t identity) {
  return std::make_shared<l2l::CallbackSource>(
      bytes.size() / kRecord, identity, [bytes, augments](const auto& position, const auto& sample) {
        const std::uint8_t* const record = bytes.data() + position.index * kRecord;
        const bool mirrors = augments && mirrored(position.number);
        std::vector<float> image(3 * kPixels);
        for (std::size_t pixel = 0; pixel < kPixels; ++pixel) {
          const std::size_t from = mirrors ? pixel / kSide * kSide + kSide - 1 - pixel % kSide : pixel;
          for (std::size_t color = 0; color < 3; ++color) {
            image[3 * pixel + color] = (static_cast<float>(record[1 + color * kPixels + from]) - 120) / 64;
          }
        }
        const std::int32_t label = record[0];
        sample.set_input(0, image);
        sample.set_target(0, {&label, 1});
        return 1;
      });
}

l2l::RevbifpnSettings settings() {
  l2l::RevbifpnSettings settings;
  settings.image = {kSide, kSide};
  settings.channels = {48, 48, 64};
  settings.kernels = {3, 3, 3};
  settings.widened = {0, 0, 0};
  settings.expansions = {1, 1, 2};
  settings.squeezes = {0.25, 0.25, 0};
  settings.residual_blocks = 1;
  settings.extra = 1;
  settings.head_channels = {48, 64, 96};
  settings.head_expansions = {1, 1, 1};
  settings.head_squeezes = {0.25, 0.25, 0.25};
  settings.head_kernel = 3;
  settings.features = 128;
  settings.dropout = 0.1;
  settings.classes = 10;
  return settings;
}

}  // namespace

int main(int count, char** arguments) try {
  if (count < 4 || count > 6)
    throw std::invalid_argument("usage: pyramid TRAIN.bin TEST.bin STEPS [none | float | fixed [SEED]]");
  const std::vector<std::uint8_t> held_out = read(arguments[2]);
  l2l::Options options;
  options.model = l2l::revbifpn(settings(), count > 4 ? arguments[4] : "float");
  options.data.train_source = source_of(read(arguments[1]), /*augments=*/true, 1);
  options.batch = {.micro_batch = 16, .micro_batches = 2};
  options.optimizer.learning_rate = 2e-3;
  options.run.steps = std::atoi(arguments[3]);
  if (count > 5) options.run.seed = std::strtoull(arguments[5], nullptr, 10);
  l2l::Trainer trainer(options);
  std::printf("loss of the last step: %.4f\n", trainer.run().last->loss);
  std::size_t right = 0;
  trainer.predict(*source_of(held_out, /*augments=*/false, 2), [&](std::uint64_t i, std::span<const float> logits) {
    right += std::max_element(logits.begin(), logits.end()) - logits.begin() == held_out[i * kRecord] ? 1 : 0;
  });
  std::printf("right: %zu of %zu\n", right, held_out.size() / kRecord);
  std::printf("device memory: %llu bytes\n", static_cast<unsigned long long>(trainer.device_peak_bytes()));
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

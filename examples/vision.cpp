// A small convolutional network of a program's own, on images of a CSV file (examples/make_digits.py writes one):
//   g++ vision.cpp $(pkg-config --cflags --libs l2l) -Wl,-rpath,$(pkg-config --variable=libdir l2l) -o vision
//   ./vision digits.csv STEPS
// Each line has 8 x 8 gray values, 0 to 16, row by row, and a class, 0 to 9. Every fifth line is for validation.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <memory>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "l2l/l2l.h"

namespace {

using l2l::LayerBuilder;
using l2l::Value;
using Values = std::span<const Value>;

constexpr int kSide = 8, kClasses = 10;

struct Image {
  std::vector<float> pixels;
  std::int32_t label;
};

std::vector<Image> read_images(const char* path, bool validation) {
  std::ifstream file(path);
  std::vector<Image> images;
  std::string line;
  for (int number = 0; std::getline(file, line); ++number) {
    if ((number % 5 == 4) != validation) continue;
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream values(line);
    Image image{std::vector<float>(kSide * kSide), 0};
    for (float& pixel : image.pixels) values >> pixel, pixel /= 16;
    if (!(values >> image.label)) throw std::runtime_error(std::string(path) + ": line " + std::to_string(number + 1));
    images.push_back(std::move(image));
  }
  return images;
}

// `identity` tells a resumed run whether the data are still the same.
std::shared_ptr<const l2l::SampleSource> source_of(const std::vector<Image>& images, std::uint64_t identity) {
  return std::make_shared<l2l::CallbackSource>(images.size(), identity,
                                               [images](const auto& position, const auto& sample) {
                                                 const Image& image = images[position.index];
                                                 sample.set_input(0, image.pixels);
                                                 sample.set_target(0, {&image.label, 1});
                                                 return 1;
                                               });
}

// relu(norm(convolution of 3 x 3)), with as many rows and columns as x has.
Value convolve(LayerBuilder& graph, Value x, std::int64_t channels, const std::string& name) {
  using l2l::Distribution;
  const std::int64_t in = 9 * graph.columns(x);
  const Value w =
      graph.matrix(name + ".weight", channels, in, Distribution::normal(std::sqrt(2.0 / static_cast<double>(in))));
  const Value y = graph.convolution(x, w, {}, {.size = {3, 3}, .padding = {1, 1}});
  const Value gain = graph.vector(name + ".norm.weight", channels, Distribution::ones());
  const Value bias = graph.vector(name + ".norm.bias", channels, Distribution::zeros());
  return graph.relu(graph.group_norm(y, 4, gain, bias));
}

l2l::ModelOptions network() {
  l2l::ModelOptions model{.architecture = "custom"};
  model.inputs = {{.name = "image", .shape = {kSide, kSide, 1}}};
  model.targets = {{.name = "class", .element = l2l::TensorSpec::Element::i32, .below = kClasses}};
  const auto stem = [](LayerBuilder& graph, Values x) { return std::vector{convolve(graph, x[0], 16, "conv")}; };
  const auto residual = [](LayerBuilder& graph, Values x) {
    return std::vector{graph.add(x[0], convolve(graph, x[0], 16, "conv"))};
  };
  const auto classify = [](LayerBuilder& graph, Values x) {
    const Value flat = graph.reshape(graph.max_pool(x[0], {.size = {2, 2}, .stride = {2, 2}}), {16 * 16});
    return std::vector{graph.linear(flat, graph.matrix("weight", 16 * 16, kClasses, l2l::Distribution::normal(0.05)))};
  };
  model.blocks = {{.id = 0, .type = "stem", .build = stem},
                  {.id = 1, .type = "residual", .build = residual},
                  {.id = 2, .type = "residual", .build = residual},
                  {.id = 3, .type = "classify", .build = classify}};
  model.loss = [](LayerBuilder& graph, Values outputs, Values targets) {
    return graph.cross_entropy(outputs[0], targets[0]);
  };
  return model;
}

}  // namespace

int main(int count, char** arguments) try {
  if (count != 3) throw std::invalid_argument("usage: vision digits.csv STEPS");
  const std::vector<Image> held_out = read_images(arguments[1], /*validation=*/true);
  l2l::Options options;
  options.model = network();
  options.data.train_source = source_of(read_images(arguments[1], /*validation=*/false), 1);
  options.batch = {.micro_batch = 32, .micro_batches = 2};
  options.optimizer.learning_rate = 3e-3;
  options.run.steps = std::atoi(arguments[2]);
  l2l::Trainer trainer(options);
  std::printf("loss of the last step: %.4f\n", trainer.run().last->loss);
  std::size_t right = 0;
  trainer.predict(*source_of(held_out, 2), [&](std::uint64_t i, std::span<const float> logits) {
    right += std::max_element(logits.begin(), logits.end()) - logits.begin() == held_out[i].label ? 1 : 0;
  });
  std::printf("right: %zu of %zu\n", right, held_out.size());
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

// Puts a layer of its own behind every block of a Hugging Face model, and trains these layers alone (adapters as those
// of Houlsby et al., 2019):
//   g++ own_layer.cpp $(pkg-config --cflags --libs l2l) -Wl,-rpath,$(pkg-config --variable=libdir l2l) -o own_layer
//   ./own_layer MODEL_DIRECTORY TEXT_FILE FOLDER
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "l2l/l2l.h"

namespace {

constexpr std::int64_t kWidth = 16;
constexpr std::uint32_t kFirstAdapter = 1000;  // ids below are those of the model's blocks

// y = x + gelu(norm(x) down) up. `up` begins at zero, so at first the model is what it was.
std::vector<l2l::Value> adapter(l2l::LayerBuilder& graph, std::span<const l2l::Value> inputs) {
  using l2l::Distribution;
  const l2l::Value x = inputs[0];
  const std::int64_t hidden = graph.columns(x);
  const l2l::Value gain = graph.vector("norm.weight", hidden, Distribution::ones());
  const l2l::Value bias = graph.vector("norm.bias", hidden, Distribution::zeros());
  const l2l::Value down = graph.matrix("down.weight", hidden, kWidth, Distribution::normal(0.02));
  const l2l::Value up = graph.matrix("up.weight", kWidth, hidden, Distribution::zeros());
  return {graph.add(x, graph.linear(graph.gelu(graph.linear(graph.layer_norm(x, gain, bias), down)), up))};
}

l2l::Options options_for(char** arguments) {
  l2l::Options options;
  options.model.pretrained = arguments[1];
  options.model.sequence = 32;
  options.data.train = options.data.validation = {arguments[2]};
  options.batch.micro_batch = 4;
  options.batch.micro_batches = 2;
  options.optimizer.learning_rate = 3e-3;
  options.checkpoint.directory = arguments[3];
  options.run.steps = 30;
  return options;
}

// Block 0, adapter 1000, block 1, adapter 1001, ...
std::vector<l2l::Layer> with_adapters(std::int64_t blocks) {
  std::vector<l2l::Layer> layers;
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(blocks); ++i) {
    layers.push_back({.id = i});
    layers.push_back({.id = kFirstAdapter + i, .type = "adapter", .build = adapter});
  }
  return layers;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) {
    std::fprintf(stderr, "usage: own_layer MODEL_DIRECTORY TEXT_FILE FOLDER\n");
    return 2;
  }
  try {
    l2l::Options options = options_for(arguments);
    options.model.blocks = with_adapters(l2l::Trainer(options).options().model.layers);
    options.optimizer.train = {"*.10??.*"};  // the adapters' parameters: h.1000.down.weight, ...
    l2l::Trainer trainer(options);
    std::printf("%lld of %lld parameters are trained\n", static_cast<long long>(trainer.contract().trained_parameters),
                static_cast<long long>(trainer.contract().parameters));
    std::printf("before: loss %.4f\n", trainer.evaluate()->loss);
    const l2l::RunResult result = trainer.run();
    std::printf("after: loss %.4f\n", result.validation->loss);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}

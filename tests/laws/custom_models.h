// Models of a program's own, on the public headers alone: a perceptron, a convolutional network, an LSTM unrolled over
// 64 steps, a mix of layers of several types and inputs of which two share their parameters, and a small RevBiFPN. The
// same in PyTorch: tests/fixtures/make_custom_fixture.py.
#pragma once

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "l2l/l2l.h"

namespace l2l::testing {

using Values = std::vector<Value>;
using ValueSpan = std::span<const Value>;

// x W^T + b, with parameters NAME.weight [out, in] and NAME.bias.
inline Value dense(LayerBuilder& graph, Value x, std::int64_t out, const std::string& name = "linear") {
  const double bound = 1 / std::sqrt(static_cast<double>(graph.columns(x)));
  const Value w = graph.matrix(name + ".weight", out, graph.columns(x), Distribution::uniform(bound));
  return graph.linear_transposed(x, w, graph.vector(name + ".bias", out, Distribution::uniform(bound)));
}

inline Layer layer(std::uint32_t id, const std::string& type, Layer::Build build) {
  return {.id = id, .type = type, .build = std::move(build)};
}

inline LossBuilder class_loss() {
  return [](LayerBuilder& graph, ValueSpan outputs, ValueSpan targets) {
    return graph.cross_entropy(outputs[0], targets[0]);
  };
}

// The squared error of each element, times `factor`.
inline LossBuilder squared_loss(double factor) {
  return [factor](LayerBuilder& graph, ValueSpan outputs, ValueSpan targets) {
    const Value error = graph.subtract(outputs[0], targets[0]);
    return graph.scale(graph.multiply(error, error), factor);
  };
}

inline ModelOptions perceptron(int hidden_layers = 2) {
  ModelOptions model{.architecture = "custom"};
  model.inputs = {{.name = "x", .shape = {12}}};
  model.targets = {{.name = "class", .element = TensorSpec::Element::i32, .below = 5}};
  model.loss = class_loss();
  model.blocks = {layer(
      0, "first", [](LayerBuilder& graph, ValueSpan x) -> Values { return {graph.relu(dense(graph, x[0], 16))}; })};
  for (int i = 0; i < hidden_layers; ++i) {
    model.blocks.push_back(
        layer(static_cast<std::uint32_t>(i + 1), "hidden",
              [](LayerBuilder& graph, ValueSpan x) -> Values { return {graph.gelu(dense(graph, x[0], 16))}; }));
  }
  model.blocks.push_back(
      layer(100, "last", [](LayerBuilder& graph, ValueSpan x) -> Values { return {dense(graph, x[0], 5)}; }));
  return model;
}

inline Value convolution(LayerBuilder& graph, Value x, std::int64_t out, const Window& window, const std::string& name,
                         int groups = 1) {
  const std::int64_t in = window.size[0] * window.size[1] * graph.columns(x) / groups;
  const double bound = 1 / std::sqrt(static_cast<double>(in));
  const Value w = graph.matrix(name + ".weight", out, in, Distribution::uniform(bound));
  return graph.convolution(x, w, graph.vector(name + ".bias", out, Distribution::uniform(bound)), window, groups);
}

inline ModelOptions convolutional() {
  ModelOptions model{.architecture = "custom"};
  model.inputs = {{.name = "image", .shape = {8, 9, 2}}};
  model.targets = {{.name = "class", .element = TensorSpec::Element::i32, .below = 4}};
  model.loss = class_loss();
  const Window three{.size = {3, 3}, .padding = {1, 1}}, half{.size = {2, 2}, .stride = {2, 2}};
  model.blocks = {
      layer(
          0, "stem",
          [=](LayerBuilder& graph, ValueSpan x) -> Values {
            const Value y = convolution(graph, x[0], 6, {.size = {3, 2}, .stride = {1, 2}, .padding = {1, 0}}, "conv");
            const Value gain = graph.vector("norm.weight", 6, Distribution::ones());
            const Value bias = graph.vector("norm.bias", 6, Distribution::zeros());
            return {graph.relu(graph.group_norm(y, 3, gain, bias))};
          }),
      layer(1, "residual",
            [=](LayerBuilder& graph, ValueSpan x) -> Values {
              const Value y = graph.silu(convolution(graph, x[0], 6, three, "conv1"));
              return {graph.add(x[0], convolution(graph, y, 6, three, "conv2"))};
            }),
      layer(2, "pool",  // without parameters
            [=](LayerBuilder& graph, ValueSpan x) -> Values { return {graph.max_pool(x[0], half)}; }),
      layer(3, "dilated",
            [=](LayerBuilder& graph, ValueSpan x) -> Values {
              const Value y = convolution(graph, x[0], 5, {.size = {2, 1}, .dilation = {2, 1}}, "conv");
              return {graph.average_pool(graph.tanh(y), {.size = {2, 2}, .padding = {1, 1}})};
            }),
      layer(4, "last", [](LayerBuilder& graph, ValueSpan x) -> Values {
        return {dense(graph, graph.reshape(graph.mean(x[0], {1, 2}), {5}), 4)};
      })};
  return model;
}

inline ModelOptions recurrent(int steps = 64) {
  ModelOptions model{.architecture = "custom"};
  model.inputs = {{.name = "sequence", .shape = {steps, 3}}};
  model.targets = {{.name = "y", .shape = {2}}};
  model.loss = squared_loss(0.5);
  model.blocks = {layer(0, "lstm",
                        [=](LayerBuilder& graph, ValueSpan x) -> Values {
                          constexpr std::int64_t kHidden = 8;
                          const Value of_x = graph.matrix("w_x", 4 * kHidden, 3, Distribution::uniform(0.35));
                          const Value of_h = graph.matrix("w_h", 4 * kHidden, kHidden, Distribution::uniform(0.35));
                          const Value bias = graph.vector("b", 4 * kHidden, Distribution::uniform(0.35));
                          Value h, c;
                          for (int step = 0; step < steps; ++step) {
                            const Value now = graph.reshape(graph.slice(x[0], 1, step, 1), {3});
                            Value gates = graph.linear_transposed(now, of_x, bias);
                            if (step > 0) gates = graph.add(gates, graph.linear_transposed(h, of_h));
                            const auto gate = [&](int i) { return graph.slice(gates, 1, i * kHidden, kHidden); };
                            const Value kept = graph.multiply(graph.sigmoid(gate(0)), graph.tanh(gate(2)));
                            c = step == 0 ? kept : graph.add(graph.multiply(graph.sigmoid(gate(1)), c), kept);
                            h = graph.multiply(graph.sigmoid(gate(3)), graph.tanh(c));
                          }
                          return {h};
                        }),
                  layer(1, "last", [](LayerBuilder& graph, ValueSpan x) -> Values { return {dense(graph, x[0], 2)}; })};
  return model;
}

// Words and a few numbers: the words are looked up and attend to each other, in two layers of the same parameters,
// while the numbers travel beside them until a layer mixes both.
inline ModelOptions mixed() {
  ModelOptions model{.architecture = "custom"};
  model.inputs = {{.name = "words", .shape = {10}, .element = TensorSpec::Element::i32, .below = 20},
                  {.name = "numbers", .shape = {3}}};
  model.targets = {{.name = "y", .shape = {2}}};
  model.loss = squared_loss(1);
  const Layer::Build attend = [](LayerBuilder& graph, ValueSpan x) -> Values {
    const Value mixed = graph.attention(dense(graph, x[0], 24, "qkv"), {.heads = 2, .causal = false});
    return {graph.add(x[0], dense(graph, mixed, 8, "out")), x[1]};
  };
  model.blocks = {layer(0, "lookup",
                        [](LayerBuilder& graph, ValueSpan x) -> Values {
                          const Value table = graph.matrix("table", 20, 8, Distribution::normal(1));
                          const Value places = graph.matrix("places", 10, 8, Distribution::normal(0.3));
                          return {graph.add(graph.lookup(x[0], table), places), x[1]};
                        }),
                  layer(1, "attend", attend),
                  {.id = 2, .type = "attend", .build = attend, .shares = 1},
                  layer(3, "mix",
                        [](LayerBuilder& graph, ValueSpan x) -> Values {
                          // The numbers weigh the words: softmax over words of a product.
                          const Value weights = graph.reshape(dense(graph, x[1], 10, "weights"), {1, 10});
                          const Value scaled = graph.multiply(graph.permute(x[0], {0, 2, 1}), graph.softmax(weights));
                          const Value sum = graph.reshape(graph.sum(scaled, {2}), {8});
                          const Value gain = graph.vector("gain", 8, Distribution::ones());
                          return {graph.concatenate({graph.multiply(sum, gain), x[1]}, 1)};
                        }),
                  layer(4, "last", [](LayerBuilder& graph, ValueSpan x) -> Values { return {dense(graph, x[0], 2)}; })};
  return model;
}

inline Value batch_norm(LayerBuilder& graph, Value x, const std::string& name = "norm") {
  const std::int64_t channels = graph.columns(x);
  const Value gain = graph.vector(name + ".weight", channels, Distribution::ones());
  const Value bias = graph.vector(name + ".bias", channels, Distribution::zeros());
  const Value mean = graph.statistic(name + ".running_mean", channels, Distribution::zeros());
  const Value variance = graph.statistic(name + ".running_var", channels, Distribution::ones());
  return graph.batch_norm(x, gain, bias, mean, variance);
}

// With statistics of the microbatch, in one layer and in two that share theirs; these convolve in groups, and each
// channel by itself.
inline ModelOptions normalized() {
  ModelOptions model{.architecture = "custom"};
  model.inputs = {{.name = "image", .shape = {7, 8, 3}}};
  model.targets = {{.name = "class", .element = TensorSpec::Element::i32, .below = 4}};
  model.loss = class_loss();
  const Layer::Build residual = [](LayerBuilder& graph, ValueSpan x) -> Values {
    const Window channels{.size = {3, 2}, .padding = {1, 1}, .dilation = {1, 2}};
    Value y = convolution(graph, x[0], 6, {.size = {1, 3}, .padding = {0, 1}}, "conv", 3);
    y = convolution(graph, y, 6, channels, "depthwise", 6);
    return {graph.add(x[0], batch_norm(graph, graph.relu(y)))};
  };
  model.blocks = {layer(0, "stem",
                        [](LayerBuilder& graph, ValueSpan x) -> Values {
                          const Window window{.size = {3, 3}, .stride = {1, 2}, .padding = {1, 1}};
                          return {batch_norm(graph, graph.relu(convolution(graph, x[0], 6, window, "conv")))};
                        }),
                  layer(1, "residual", residual),
                  {.id = 2, .type = "residual", .build = residual, .shares = 1},
                  layer(3, "last", [](LayerBuilder& graph, ValueSpan x) -> Values {
                    return {dense(graph, graph.reshape(graph.mean(x[0], {1, 2}), {6}), 4)};
                  })};
  return model;
}

// Of three scales, the coarsest of 2 x 2 pixels.
inline ModelOptions small_revbifpn(const std::string& reversible = "none") {
  RevbifpnSettings settings;
  settings.image = {32, 32};
  settings.image_channels = 2;
  settings.channels = {48, 16, 24};
  settings.kernels = {3, 5, 3};
  settings.widened = {0, 2, 0};
  settings.expansions = {1, 2, 1};
  settings.squeezes = {0.25, 0, 0.25};
  settings.residual_blocks = settings.extra = 1;
  settings.head_channels = {16, 16, 24};
  settings.head_expansions = {1, 2, 1};
  settings.head_squeezes = {0.25, 0.125, 0.25};
  settings.head_kernel = 3;
  settings.features = 20;
  settings.dropout = 0;
  settings.classes = 4;
  return revbifpn(settings, reversible);
}

inline ModelOptions custom_model(const std::string& name) {
  if (name == "revbifpn") return small_revbifpn();
  if (name == "perceptron") return perceptron();
  if (name == "convolutional") return convolutional();
  if (name == "normalized") return normalized();
  return name == "recurrent" ? recurrent() : mixed();
}

inline constexpr const char* kCustomModels[] = {"perceptron", "convolutional", "normalized",
                                                "recurrent",  "mixed",         "revbifpn"};

inline std::size_t elements_of(const TensorSpec& spec) {
  std::size_t elements = 1;
  for (const std::int64_t size : spec.shape) elements *= static_cast<std::size_t>(size);
  return elements;
}

// Samples of whatever tensors a model has, pseudo-random functions of their index; each counts for one.
inline std::shared_ptr<const SampleSource> drawn_samples(std::uint64_t size = 50) {
  return std::make_shared<CallbackSource>(size, 1, [](const SamplePosition& position, const SampleView& sample) {
    std::uint32_t state = static_cast<std::uint32_t>(position.index) * 2654435761u + 1;
    const auto fill = [&](std::span<const TensorSpec> specs, const auto& set) {
      for (std::size_t i = 0; i < specs.size(); ++i) {
        std::vector<float> numbers(elements_of(specs[i]));
        std::vector<std::int32_t> indices(numbers.size());
        for (std::size_t k = 0; k < numbers.size(); ++k) {
          state = state * 1664525u + 1013904223u;
          numbers[k] = static_cast<float>(state >> 8) / (1 << 23) - 1;
          if (specs[i].below > 0)
            indices[k] = static_cast<std::int32_t>((state >> 8) % static_cast<std::uint32_t>(specs[i].below));
        }
        specs[i].below > 0 ? set(i, std::span<const std::int32_t>(indices)) : set(i, std::span<const float>(numbers));
      }
    };
    fill(sample.input_tensors, [&](std::size_t i, auto values) { sample.set_input(i, values); });
    fill(sample.target_tensors, [&](std::size_t i, auto values) { sample.set_target(i, values); });
    return 1;
  });
}

}  // namespace l2l::testing

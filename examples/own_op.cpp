// An op of its own, written as a function of rows and its gradient, in layers between the blocks of a GPT:
//   g++ own_op.cpp $(pkg-config --cflags --libs l2l) -Wl,-rpath,$(pkg-config --variable=libdir l2l) -o own_op
//   ./own_op TEXT_FILE
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <span>
#include <vector>

#include "l2l/l2l.h"
#include "l2l/testing.h"

namespace {

// y = x + a sin(x)^2 (after Ziyin et al., 2020), with a parameter a for each column.
l2l::CustomOp snake() {
  l2l::CustomOp op{.name = "snake", .version = "1"};
  op.forward = [](const l2l::CustomForward& call) {
    for (std::size_t i = 0; i < call.x.size(); ++i) {
      const float s = std::sin(call.x[i]);
      call.y[i] = call.x[i] + call.parameters[i % call.parameters.size()] * s * s;
    }
  };
  op.backward = [](const l2l::CustomBackward& call) {
    for (std::size_t i = 0; i < call.x.size(); ++i) {
      const std::size_t column = i % call.parameters.size();
      const float s = std::sin(call.x[i]);
      call.dx[i] = call.dy[i] * (1 + call.parameters[column] * std::sin(2 * call.x[i]));
      if (!call.dparameters.empty()) call.dparameters[column] += call.dy[i] * s * s;
    }
  };
  return op;
}

// y = x + snake(norm(x) up) down.
l2l::Layer::Build mlp(const std::shared_ptr<const l2l::CustomOp>& op) {
  return [op](l2l::LayerBuilder& graph, std::span<const l2l::Value> inputs) -> std::vector<l2l::Value> {
    using l2l::Distribution;
    const std::int64_t hidden = graph.columns(inputs[0]);
    const l2l::Value gain = graph.vector("norm", hidden, Distribution::ones());
    const l2l::Value up = graph.matrix("up", hidden, 2 * hidden, Distribution::normal(0.02));
    const l2l::Value bend = graph.vector("bend", 2 * hidden, Distribution::ones());
    const l2l::Value down = graph.matrix("down", 2 * hidden, hidden, Distribution::normal(0.02));
    const l2l::Value wide = graph.linear(graph.rms_norm(inputs[0], gain), up);
    return {graph.add(inputs[0], graph.linear(graph.custom(wide, op, bend), down))};
  };
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: own_op TEXT_FILE\n");
    return 2;
  }
  try {
    const auto op = std::make_shared<const l2l::CustomOp>(snake());
    std::printf("gradient: off by %.4f\n", l2l::gradient_error(*op, /*rows=*/4, /*columns=*/6, /*parameters=*/6));
    l2l::Options options;
    options.model.hidden = 64;
    options.model.heads = 4;
    options.model.sequence = 32;
    options.model.blocks = {{.id = 0}, {.id = 1, .type = "snake", .build = mlp(op)}, {.id = 2}};
    options.device.kind = "host";
    options.data.train = options.data.validation = {arguments[1]};
    options.batch.micro_batch = 4;
    options.optimizer.learning_rate = 3e-3;
    options.run.steps = 40;
    l2l::Trainer trainer(options);
    std::printf("before: loss %.4f\n", trainer.evaluate()->loss);
    std::printf("after: loss %.4f\n", trainer.run().validation->loss);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}

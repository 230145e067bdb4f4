// Trains a GPT-2 that grows from 6 to 12 to 24 blocks: each new one stands behind the block whose weights it copies
// (Gong et al., 2019, put copies of the whole stack on top instead). Device memory is that of the contract from step 1
// on.
//   g++ growth.cpp $(pkg-config --cflags --libs l2l) -Wl,-rpath,$(pkg-config --variable=libdir l2l)
//   ./a.out TEXT_FILE FOLDER [STEPS_OF_EACH_DEPTH]
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "l2l/l2l.h"

namespace {

constexpr std::uint32_t kFirst = 6, kLast = 24;

using Ids = std::vector<std::uint32_t>;

l2l::Options options_for(char** arguments) {
  l2l::Options options;
  options.model.hidden = 64;
  options.model.heads = 4;
  options.model.sequence = 64;
  options.model.reserve = l2l::LayerReserve{.most_layers = kLast};
  for (std::uint32_t id = 0; id < kLast; ++id) {
    (id < kFirst ? options.model.blocks : options.model.reserve->layers).push_back({.id = id});
  }
  options.data.train = options.data.validation = {arguments[1]};
  options.batch.micro_batch = 8;
  options.optimizer.learning_rate = 1e-3;
  options.transfer.stash = "host";
  options.recompute.policy = "full";
  options.checkpoint.directory = arguments[2];
  return options;
}

// All parameters of a block, the values alone: its moments begin at zero.
void copy_block(l2l::Trainer& trainer, std::uint32_t from, std::uint32_t to) {
  const std::string source = "h." + std::to_string(from) + ".", copy = "h." + std::to_string(to) + ".";
  for (const l2l::Parameter& parameter : trainer.parameters()) {
    if (!parameter.name.starts_with(source)) continue;
    std::int64_t elements = 1;
    for (const std::int64_t size : parameter.shape) elements *= size;
    std::vector<float> values(static_cast<std::size_t>(elements));
    trainer.read_parameter(parameter.name, l2l::ParameterPart::value, 0, values);
    trainer.write_parameter(copy + parameter.name.substr(source.size()), l2l::ParameterPart::value, 0, values);
  }
}

// Behind each block a copy of it, with the next free ids.
Ids grown(l2l::Trainer& trainer) {
  Ids ids;
  auto next = static_cast<std::uint32_t>(trainer.layers().size());
  for (const std::uint32_t block : trainer.layers()) {
    copy_block(trainer, block, next);
    ids.push_back(block);
    ids.push_back(next++);
  }
  return ids;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3 && count != 4) {
    std::fprintf(stderr, "usage: growth TEXT_FILE FOLDER [STEPS_OF_EACH_DEPTH]\n");
    return 2;
  }
  try {
    const int steps = count == 4 ? std::atoi(arguments[3]) : 100;
    l2l::Trainer trainer(options_for(arguments));
    while (true) {
      double milliseconds = 0;
      for (int step = 0; step < steps; ++step) milliseconds += trainer.step().step_ms;
      std::printf("step %lld, %zu blocks: %.2f ms a step, %.1f MiB on the device, validation loss %.4f\n",
                  static_cast<long long>(trainer.completed_steps()), trainer.layers().size(), milliseconds / steps,
                  static_cast<double>(trainer.device_peak_bytes()) / (1 << 20), trainer.evaluate()->loss);
      if (trainer.layers().size() == kLast) break;
      trainer.set_layers(grown(trainer));
      std::printf("  grown to %zu blocks: %.4f\n", trainer.layers().size(), trainer.evaluate()->loss);
    }
    std::printf("saved with its list of layers in %s\n", trainer.save().c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}

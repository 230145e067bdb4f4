// Trains a GPT-2 of which each step uses a random part of the blocks (stochastic depth; Huang et al., 2016): those that
// are left out cost no time, and keep their weights, moments and number of updates. At the end all of them are used,
// here without scaling them by how often they were.
//   g++ stochastic_depth.cpp $(pkg-config --cflags --libs l2l) -Wl,-rpath,$(pkg-config --variable=libdir l2l)
//   ./a.out TEXT_FILE [STEPS]
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <numeric>
#include <random>
#include <vector>

#include "l2l/l2l.h"

namespace {

constexpr std::uint32_t kBlocks = 12;
constexpr double kLastSurvives = 0.5;  // probability of the last block; that of the first is nearly 1

using Ids = std::vector<std::uint32_t>;

Ids all_blocks() {
  Ids ids(kBlocks);
  std::iota(ids.begin(), ids.end(), 0u);
  return ids;
}

// Block b of n stays with probability 1 - (b + 1) / n * (1 - kLastSurvives).
Ids surviving(std::mt19937& random) {
  std::uniform_real_distribution<double> uniform;
  Ids ids;
  for (std::uint32_t block = 0; block < kBlocks; ++block) {
    if (uniform(random) < 1 - (block + 1.0) / kBlocks * (1 - kLastSurvives)) ids.push_back(block);
  }
  return ids.empty() ? Ids{0} : ids;
}

l2l::Options options_for(const char* text) {
  l2l::Options options;
  options.model.hidden = 64;
  options.model.heads = 4;
  options.model.sequence = 64;
  options.model.reserve = l2l::LayerReserve{.most_layers = kBlocks};
  for (const std::uint32_t id : all_blocks()) options.model.blocks.push_back({.id = id});
  options.data.train = options.data.validation = {text};
  options.batch.micro_batch = 8;
  options.optimizer.learning_rate = 1e-3;
  options.transfer.stash = "host";
  options.recompute.policy = "full";
  return options;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2 && count != 3) {
    std::fprintf(stderr, "usage: stochastic_depth TEXT_FILE [STEPS]\n");
    return 2;
  }
  try {
    const int steps = count == 3 ? std::atoi(arguments[2]) : 200;
    l2l::Trainer trainer(options_for(arguments[1]));
    std::mt19937 random(1);
    double milliseconds = 0, blocks = 0;
    for (int step = 0; step < steps; ++step) {
      trainer.set_layers(surviving(random));
      const l2l::StepReport report = trainer.step();
      milliseconds += report.step_ms;
      blocks += static_cast<double>(trainer.layers().size());
      if ((step + 1) % 50 == 0) std::printf("step %d: loss %.4f\n", step + 1, report.loss);
    }
    std::printf("%.1f of %u blocks and %.2f ms a step, %.1f MiB on the device throughout\n", blocks / steps, kBlocks,
                milliseconds / steps, static_cast<double>(trainer.device_peak_bytes()) / (1 << 20));
    trainer.set_layers(all_blocks());
    std::printf("validation loss of all blocks: %.4f\n", trainer.evaluate()->loss);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}

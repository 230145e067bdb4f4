// Law 3: what a run will need is known before step 1, and what does not fit is refused with need, have and shortfall.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "tests/laws/counting_device.h"
#include "tests/laws/measured_memory.h"
#include "tests/laws/small_run.h"

namespace l2l::contract_law {
namespace {

using testing::CountingDevice;
using testing::SmallRun;

std::uint64_t sum(const std::vector<ContractLine>& lines) {
  std::uint64_t bytes = 0;
  for (const ContractLine& line : lines) bytes += line.bytes;
  return bytes;
}

TEST(Contract, LinesAddUp) {
  const SmallRun run;
  for (const char* execution : {"relay", "resident"}) {
    for (const char* stash : {"host", "device"}) {
      Options options = run.options();
      options.device.execution = execution;
      options.transfer.stash = stash;
      const Trainer trainer(options);
      EXPECT_EQ(sum(trainer.contract().device), trainer.contract().device_bytes);
      EXPECT_EQ(sum(trainer.contract().host), trainer.contract().host_bytes);
    }
  }
}

// The largest block, not the vocabulary, sets the slot size: Llama 3's 128,256 entries cost at most what the head's
// chunks need beside each other. The number of chunks does not matter.
TEST(Contract, TheArenaDoesNotGrowWithTheVocabulary) {
  const SmallRun run;
  const auto contract = [&](std::int64_t vocabulary, const char* execution) {
    Options options = run.options();
    options.model = {.layers = 2, .hidden = 512, .heads = 8, .vocabulary = vocabulary, .sequence = 256, .dropout = 0.1};
    options.precision.compute = "bf16";
    options.transfer.stash = "host";
    options.device.execution = execution;
    return Trainer(options).contract();
  };
  const auto line = [](const MemoryContract& contract, const std::string& what) {
    for (const ContractLine& line : contract.device) {
      if (line.what.find(what) != std::string::npos) return std::optional(line.bytes);
    }
    return std::optional<std::uint64_t>();
  };
  const MemoryContract small = contract(256, "relay"), large = contract(128'256, "relay");
  EXPECT_TRUE(line(large, "vocabulary chunks"));
  EXPECT_FALSE(line(small, "vocabulary chunks"));
  const std::uint64_t chunks = large.device_bytes_apart - small.device_bytes_apart;
  EXPECT_LT(chunks, std::uint64_t{256} * 128'256);
  // Phases may share a little less beside chunks.
  EXPECT_LE(large.device_bytes, small.device_bytes + chunks + chunks / 20);
  EXPECT_EQ(line(large, "weight slots"), line(small, "weight slots"));
  constexpr std::int64_t kRows = 6152;  // of a chunk, which is no larger than a block
  // Half the chunks, with a last one of the same size, since scratch of its products may depend on that.
  EXPECT_EQ(contract(128'256 - 10 * kRows, "relay").device_bytes, large.device_bytes);
  // Negative control: where everything is resident, the table shows.
  EXPECT_GT(contract(128'256, "resident").device_bytes, contract(256, "resident").device_bytes + chunks);
}

TEST(Contract, DeviceAndPinnedBytesAreExact) {
  const SmallRun run;
  for (const char* execution : {"relay", "resident"}) {
    for (const char* stash : {"host", "device"}) {
      for (const char* precision : {"fp32", "bf16", "fp16"}) {
        for (const char* clip : {"none", "global"}) {
          Options options = run.options();
          options.device.execution = execution;
          options.transfer.stash = stash;
          options.precision.compute = precision;
          options.optimizer.clip = clip;
          options.device.threads = 2;
          const auto [devices, pinned] = testing::measured_memory(options, 2);
          const Trainer trainer(options);
          EXPECT_EQ(pinned, trainer.contract().pinned_bytes) << execution << stash << precision << clip;
          EXPECT_EQ(devices.at(0), trainer.contract().device_bytes) << execution << stash << precision << clip;
        }
      }
    }
  }
}

TEST(Contract, EachGradientBufferHoldsTheLargestLayer) {
  const SmallRun run;
  const auto with = [&](std::int64_t buffers) {
    Options options = run.options();
    options.eps.gradient_buffers = buffers;
    return options;
  };
  const auto staging = [&](std::int64_t buffers) {
    const Trainer trainer(with(buffers));
    for (const ContractLine& line : trainer.contract().host) {
      if (line.what.find("gradient staging") != std::string::npos) return line.bytes;
    }
    return std::uint64_t{0};
  };
  const std::uint64_t one = staging(5) - staging(4);
  EXPECT_GT(one, 0u);
  EXPECT_EQ(staging(5) - staging(3), 2 * one);
  EXPECT_EQ(staging(0), staging(3));
  EXPECT_EQ(staging(4096), staging(2048)) << "no more than there are layers";
  Trainer few(with(1)), many(with(9));
  EXPECT_EQ(testing::record_of(few, 3), testing::record_of(many, 3));
}

// Negative control: a component that allocates one byte more than planned, of either memory.
TEST(ContractNegativeControl, OneByteBesideTheContractIsCaught) {
  const SmallRun run;
  Options options = run.options();
  options.device.threads = 2;
  const Trainer trainer(options);
  std::uint64_t pinned = 0, device = 0;
  device::Device* seen = nullptr;
  std::unique_ptr<device::Buffer> secret, pinned_secret;
  testing::record_on(
      options, 1,
      [&](std::unique_ptr<device::HostDevice> inner) {
        auto counting = std::make_unique<CountingDevice>(std::move(inner), pinned);
        seen = counting.get();
        secret = counting->allocate(1, "secret");
        pinned_secret = counting->allocate_pinned(1, "secret");
        return counting;
      },
      [&] {
        device = seen->peak_bytes();
        secret.reset();
        pinned_secret.reset();
      });
  EXPECT_NE(pinned, trainer.contract().pinned_bytes);
  EXPECT_NE(device, trainer.contract().device_bytes);
}

// fp32 and bf16: 12; fp16, whose wire is stored beside its master: 14; 4 less with SGD's one moment. Without held
// gradients.
TEST(Contract, BytesPerParameter) {
  struct Case {
    const char *precision, *optimizer;
    std::uint64_t bytes;
  };
  const SmallRun run;
  for (const Case& c : {Case{"fp32", "adamw", 12}, Case{"bf16", "adamw", 12}, Case{"fp16", "adamw", 14},
                        Case{"bf16", "lamb", 12}, Case{"fp32", "sgd", 8}, Case{"fp16", "sgd", 10}}) {
    Options options = run.options();
    options.model.hidden = 64;
    options.model.heads = 4;
    options.model.layers = 20;
    options.precision.compute = c.precision;
    options.optimizer.name = c.optimizer;
    const Trainer trainer(options);
    const auto& lines = trainer.contract().host;
    const auto state = std::find_if(lines.begin(), lines.end(), [](const ContractLine& line) {
      return line.what == "weights and optimizer state";
    });
    ASSERT_NE(state, lines.end());
    // The fields of a group begin at different offsets modulo a page (eps/group_memory.cpp): a few hundred bytes each.
    const std::uint64_t fields = c.bytes * static_cast<std::uint64_t>(trainer.contract().parameters);
    EXPECT_GE(state->bytes, fields) << c.precision;
    EXPECT_LE(state->bytes, fields + 3 * 2560 * (20 + 4)) << c.precision;
  }
}

template <typename Change>
std::string refusal(const Options& options, Change change) {
  Options changed = options;
  change(changed);
  try {
    const Trainer trainer(changed);
  } catch (const OutOfMemory& error) {
    return error.what();
  }
  return "";
}

TEST(Contract, RefusesOneByteTooLittleAndAcceptsTheNeed) {
  const SmallRun run;
  Options options = run.options();
  options.transfer.stash = "host";
  const std::uint64_t device = Trainer(options).contract().device_bytes;
  EXPECT_EQ(refusal(options, [&](Options& o) { o.device.memory = device; }), "");
  const std::string message = refusal(options, [&](Options& o) { o.device.memory = device - 1; });
  EXPECT_NE(message.find("device.memory"), std::string::npos) << message;
  EXPECT_NE(message.find(std::to_string(device)), std::string::npos) << message;
  EXPECT_NE(message.find("short by"), std::string::npos) << message;
  EXPECT_NE(refusal(options, [&](Options& o) { o.eps.memory = 1000; }).find("eps.memory"), std::string::npos);
  EXPECT_NE(refusal(options, [&](Options& o) { o.eps.stash_memory = 100; }).find("eps.stash_memory"),
            std::string::npos);
}

TEST(Contract, RefusesMoreThanTheMachineHas) {
  const SmallRun run;
  const std::string message = refusal(run.options(), [&](Options& o) {
    o.model.layers = 10'000;
    o.model.hidden = 4096;
    o.model.heads = 32;
  });
  EXPECT_NE(message.find("host memory"), std::string::npos) << message;
  EXPECT_FALSE(std::filesystem::exists(run.options().checkpoint.directory));
}

TEST(Contract, WhatOfTheStashDoesNotFitGoesToTheHost) {
  const SmallRun run;
  Options options = run.options();
  EXPECT_EQ(Trainer(options).contract().stash, "device");
  options.device.memory = Trainer(options).contract().device_bytes - 1;
  options.model.layers = 40;
  const MemoryContract split = Trainer(options).contract();
  EXPECT_EQ(split.stash, "split");
  EXPECT_GT(split.blocks_stashed_on_device, 0);
  EXPECT_LE(split.device_bytes, options.device.memory);
  Options host = options;
  host.transfer.stash = "host";
  options.device.memory = Trainer(host).contract().device_bytes;
  EXPECT_EQ(Trainer(options).contract().stash, "host");
}

}  // namespace
}  // namespace l2l::contract_law

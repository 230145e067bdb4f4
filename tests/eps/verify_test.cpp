// Proof of state: no bit of master, moments or wire flips unnoticed.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <random>

#include "eps/group_memory.h"
#include "l2l/errors.h"
#include "optimizers/checksum.h"
#include "optimizers/kernels.h"
#include "tests/eps/small_checkpoint.h"
#include "tests/eps/toy.h"
#include "tests/support/temporary_folder.h"

namespace l2l::eps::testing {
namespace {

using optimizers::MomentFormat;
using optimizers::MomentFormats;

// From the definition, a byte at a time.
std::uint64_t plain_checksum(std::vector<std::uint8_t> bytes) {
  bytes.resize((bytes.size() + 63) / 64 * 64);
  optimizers::ChecksumLanes lanes;
  for (std::size_t row = 0; row < bytes.size(); row += 64) {
    for (std::size_t lane = 0; lane < 16; ++lane) {
      std::uint32_t word = 0;
      for (std::size_t k = 4; k > 0; --k) word = word << 8 | bytes[row + 4 * lane + k - 1];
      lanes.sum[lane] += word;
      lanes.sum_of_sums[lane] = std::rotl(lanes.sum_of_sums[lane], 7) + lanes.sum[lane];
    }
  }
  return lanes.value();
}

TEST(Checksum, IsTheSameInEveryInstructionSetAndCut) {
  std::mt19937 random(1);
  for (std::size_t size : {0, 1, 63, 64, 65, 1000, 8192, 8200}) {
    std::vector<std::uint8_t> bytes(size);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
    for (const optimizers::Kernels* set : optimizers::supported_kernels()) {
      const optimizers::ChecksumKernel sum = optimizers::checksum_kernel_of(set->name);
      optimizers::ChecksumLanes whole, cut;
      sum(whole, bytes.data(), size);
      EXPECT_EQ(whole.value(), plain_checksum(bytes)) << set->name << " " << size;
      const std::size_t half = size / 2 / 64 * 64;
      sum(cut, bytes.data(), half);
      sum(cut, bytes.data() + half, size - half);
      EXPECT_EQ(cut.value(), whole.value()) << set->name << " " << size;
    }
  }
}

TEST(Checksum, EverySingleBitChangesItAndSoDoExchangedWords) {
  std::vector<std::uint32_t> words(1024);
  std::mt19937 random(2);
  for (std::uint32_t& word : words) word = random();
  const auto value = [&] {
    optimizers::ChecksumLanes lanes;
    optimizers::checksum_kernel()(lanes, words.data(), words.size() * 4);
    return lanes.value();
  };
  const std::uint64_t before = value();
  for (std::size_t bit = 0; bit < words.size() * 32; ++bit) {
    words[bit / 32] ^= 1u << bit % 32;
    EXPECT_NE(value(), before) << bit;
    words[bit / 32] ^= 1u << bit % 32;
  }
  std::swap(words[16], words[32]);  // the same lane
  EXPECT_NE(value(), before);
}

std::uint64_t checksum_of(const std::vector<float>& values) {
  optimizers::ChecksumLanes lanes;
  optimizers::checksum_kernel()(lanes, values.data(), values.size() * sizeof(float));
  return lanes.value();
}

TEST(Checksum, ChangesOfManyWordsDoNotCancel) {
  std::vector<float> values(2048);
  std::mt19937 random(3);
  for (float& value : values) value = std::uniform_real_distribution<float>(-1, 1)(random);
  const std::uint64_t before = checksum_of(values);
  const auto expect_seen = [&](std::size_t first, std::size_t count, std::uint32_t flipped) {
    std::vector<float> changed = values;
    for (std::size_t i = first; i < first + count; ++i) {
      changed[i] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(changed[i]) ^ flipped);
    }
    EXPECT_NE(checksum_of(changed), before) << first << " " << count << " " << flipped;
  };
  for (const std::uint32_t bit : {31u, 30u, 29u, 23u}) {
    for (std::size_t first = 0; first < 256; ++first) expect_seen(first, 2, 1u << bit);
    for (const std::size_t count : {16u, 32u, 256u, 2048u}) expect_seen(0, count, 1u << bit);
  }
  for (std::size_t count = 16; count <= 65536; count += count < 2048 ? 16 : 2048) {
    const std::uint64_t ones = checksum_of(std::vector<float>(count, 1));
    for (const float other : {0.0f, 2.0f, -1.0f, 0.5f}) {
      EXPECT_NE(checksum_of(std::vector<float>(count, other)), ones) << count << " " << other;
    }
  }
}

struct Formats {
  DType wire;
  MomentFormats moments;
};
const Formats kFormats[] = {{DType::f32, {}},
                            {DType::bf16, {MomentFormat::bf16, MomentFormat::f32}},
                            {DType::bf16, {MomentFormat::int8, MomentFormat::int8}},
                            {DType::f16, {MomentFormat::bf16, MomentFormat::bf16}}};

StoreOptions options_of(const Formats& formats) {
  StoreOptions options = toy_options();
  options.wire = formats.wire;
  options.moments = formats.moments;
  return options;
}

// Every byte of the arrays of a block.
std::vector<std::span<std::uint8_t>> arrays_of(const GroupMemory& memory, const Block& block, const Formats& formats) {
  const std::int64_t count = block.end - block.begin;
  const optimizers::Streams streams = memory.streams(block, block.begin, count, 1);
  const auto elements = static_cast<std::size_t>(count);
  const auto span = [](void* data, std::size_t bytes) { return std::span(static_cast<std::uint8_t*>(data), bytes); };
  std::vector<std::span<std::uint8_t>> arrays = {span(streams.wire, elements * size_of(formats.wire))};
  if (streams.master != nullptr) {
    arrays.push_back(span(streams.master, elements * optimizers::master_bytes(memory.master_format())));
  }
  for (int i = 0; i < 2; ++i) {
    const MomentFormat format = i == 0 ? formats.moments.first : formats.moments.second;
    const optimizers::MomentStream& moment = i == 0 ? streams.first : streams.second;
    arrays.push_back(span(moment.codes, elements * optimizers::code_bytes(format)));
    if (moment.scales != nullptr) {
      arrays.push_back(span(moment.scales, optimizers::scale_bytes(format, elements)));
    }
  }
  return arrays;
}

// R22: ten thousand random bits of one group's state, each alone.
TEST(ProofOfState, TenThousandRandomFlipsAreFound) {
  std::mt19937_64 random(3);
  for (const Formats& formats : kFormats) {
    TestMemory source;
    GroupMemory memory(toy_layout().groups[kBlock0], options_of(formats), source);
    std::vector<float> values(150 * 130);
    for (float& value : values) value = static_cast<float>(random() % 1000) * 1e-3f;
    memory.write_master(1, 0, values);
    for (int moment = 0; moment < 2; ++moment) memory.write_moment(moment, 1, 0, values);
    memory.seal();
    EXPECT_NO_THROW(memory.check());
    int missed = 0;
    for (int i = 0; i < 2500; ++i) {
      const Block& block =
          memory.block(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(memory.blocks())));
      auto arrays = arrays_of(memory, block, formats);
      std::span<std::uint8_t> array = arrays[random() % arrays.size()];
      std::uint8_t& byte = array[random() % array.size()];
      const auto bit = static_cast<std::uint8_t>(1u << random() % 8);
      byte ^= bit;
      try {
        memory.check();
        ++missed;
      } catch (const StateMismatch& found) {
        EXPECT_EQ(found.parameter, block.parameter);
      }
      byte ^= bit;
    }
    EXPECT_EQ(missed, 0) << "wire " << static_cast<int>(formats.wire);
    EXPECT_NO_THROW(memory.check());
  }
}

// Flips one bit of one array of a group: 0 the wire, 1 and 2 the moments.
void flip(ParameterStore& store, GroupIndex group, std::size_t parameter, int array, std::size_t at) {
  if (array == 0) {
    const std::span<const std::byte> wire = store.wire(group, parameter);
    const_cast<std::byte&>(wire[at % wire.size()]) ^= std::byte{16};
  } else {
    const RawMoment moment = store.raw_moment(group, parameter, array == 1 ? StatePart::moment1 : StatePart::moment2);
    moment.codes[at % moment.codes.size()] ^= std::byte{16};
  }
}

TEST(ProofOfState, AnUpdateFindsAFlipAndNamesGroupAndStep) {
  const char* const names[] = {"", "first moment", "second moment"};
  std::mt19937 random(4);
  for (const Formats& formats : kFormats) {
    for (const bool lamb : {false, true}) {
      for (int array = 0; array < 3; ++array) {
        if (array == 0 && formats.wire == DType::f16) continue;  // only written: the next update writes it anew
        StoreOptions options = options_of(formats);
        if (lamb) options.optimizer = optimizers::LambSettings{};
        options.threads = 2;
        TestRun run(toy_layout(), options);
        run.train(0, 2);
        flip(run.store, kBlock1, 1, array, random());
        std::string message;
        try {
          run.train(2, 3);
          run.store.state_hash();
        } catch (const CorruptState& error) {
          message = error.what();
        }
        EXPECT_SAYS(message, "step 3: group h.1: the ");
        EXPECT_SAYS(message, names[array]);
        EXPECT_SAYS(message, "h.1.fc.weight");
      }
    }
  }
}

TEST(ProofOfState, NoCheckpointHoldsAFlippedBit) {
  for (const Formats& formats : kFormats) {
    for (int array = 0; array < 3; ++array) {
      const l2l::testing::TemporaryFolder folder;
      TestRun run(toy_layout(), options_of(formats));
      run.train(0, 1);
      save_checkpoint(folder.path(), run.store, {.step = 1}, 2);
      flip(run.store, kTable, 0, array, 77);
      EXPECT_THROW(save_checkpoint(folder.path(), run.store, {.step = 2}, 2), CorruptState);
      EXPECT_EQ(newest_step(folder.path()), 1u);
      EXPECT_THROW(run.store.state_hash(), CorruptState);
    }
  }
}

// Frozen weights are only read; whoever saves what was trained beside them must know that they are still the same.
TEST(ProofOfState, FrozenWeightsAreChecked) {
  ModelLayout layout = toy_layout();
  for (ParameterSpec& parameter : layout.groups[kBlock0].parameters) parameter.trained = false;
  TestRun run(layout, toy_options());
  EXPECT_NO_THROW(run.store.check_state(kBlock0));
  flip(run.store, kBlock0, 1, 0, 19000);
  EXPECT_THROW(run.store.check_state(kBlock0), CorruptState);
}

// Negative control, and the key eps.verify.
TEST(ProofOfState, OffItFindsNothingAndTheBitsAreTheSame) {
  for (const Formats& formats : kFormats) {
    for (const optimizers::Optimizer& optimizer :
         {optimizers::Optimizer(optimizers::AdamWSettings{}), optimizers::Optimizer(optimizers::LambSettings{})}) {
      StoreOptions on = options_of(formats);
      on.optimizer = optimizer;
      StoreOptions off = on;
      off.verify = false;
      TestRun checked(toy_layout(), on), plain(toy_layout(), off);
      checked.train(0, 3);
      plain.train(0, 3);
      EXPECT_EQ(checked.store.state_hash(), plain.store.state_hash());
      EXPECT_GT(ParameterStore::bytes_needed(toy_layout(), on).blocks,
                ParameterStore::bytes_needed(toy_layout(), off).blocks);
      flip(plain.store, kBlock0, 1, 1, 5);
      EXPECT_NO_THROW(plain.train(3, 4));
    }
  }
}

TEST(ProofOfState, WhatIsWrittenOrLoadedIsTheNewState) {
  const l2l::testing::TemporaryFolder folder;
  TestRun run(toy_layout(), toy_options());
  run.train(0, 2);
  const auto path = save_checkpoint(folder.path(), run.store, {.step = 2}, 2);
  TestRun other(toy_layout(), toy_options());
  load_checkpoint(path, other.store);
  EXPECT_NO_THROW(other.train(2, 3));
  const std::vector<float> values(100, 0.5f);
  other.store.write(kBlock0, 1, StatePart::master, 16300, values);
  other.store.write(kBlock0, 1, StatePart::moment2, 16300, values);
  EXPECT_NO_THROW(other.train(3, 4));
}

}  // namespace
}  // namespace l2l::eps::testing

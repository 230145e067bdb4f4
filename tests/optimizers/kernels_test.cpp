// Every instruction set gives the same bits, for every kernel; and the fp32 ones are those of a plain loop.
#include "optimizers/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>

#include "core/denormals.h"
#include "l2l/errors.h"
#include "optimizers/rounding.h"

namespace l2l::optimizers {
namespace {

constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16};
constexpr MasterFormat kMasters[] = {MasterFormat::f32, MasterFormat::split, MasterFormat::beside_f16};
constexpr std::size_t kMost = 2200, kGuard = 64, kMostContributions = 8;

// Everything a kernel can touch, with room behind each array that none may.
struct Arena {
  std::vector<float> gradients[kMostContributions];
  alignas(64) float wire[kMost + kGuard], master[kMost + kGuard], first[kMost + kGuard], second[kMost + kGuard];
  std::uint16_t first_scales[kMost], second_scales[kMost];
  LambLanes lanes;
  float decoded[kMost + kGuard];
};

// Numbers of many magnitudes, zeros and denormals among them.
float some_value(std::mt19937& generator) {
  const std::uint32_t kind = static_cast<std::uint32_t>(generator()) % 16;
  if (kind == 0) return 0;
  if (kind == 1) return std::numeric_limits<float>::denorm_min() * static_cast<float>(generator() % 1000);
  const float value = std::normal_distribution<float>()(generator);
  return kind < 5 ? value * std::exp2(static_cast<float>(generator() % 80) - 60) : value * 0.1f;
}

void fill(void* to, std::size_t count, std::size_t size, bool half, bool positive, std::mt19937& generator) {
  for (std::size_t i = 0; i < count; ++i) {
    float value = some_value(generator);
    if (positive) value = std::abs(value);
    if (half) value = std::clamp(value, -6e4f, 6e4f);  // kernels never see what is not finite
    const std::uint16_t bits = half ? to_f16(value).bits : to_bf16(value).bits;
    std::memcpy(static_cast<std::byte*>(to) + i * size, size == 4 ? static_cast<const void*>(&value) : &bits, size);
  }
}

struct Case {
  DType gradient = DType::f32;
  MasterFormat master = MasterFormat::f32;
  MomentFormats moments;
  std::size_t count = 0, contributions = 1;
};

void fill_moment(MomentFormat format, void* codes, std::uint16_t* scales, bool positive, std::mt19937& generator) {
  if (format != MomentFormat::int8) return fill(codes, kMost, code_bytes(format), false, positive, generator);
  for (std::size_t i = 0; i < kMost; ++i) {
    static_cast<std::uint8_t*>(codes)[i] = static_cast<std::uint8_t>(generator());
  }
  fill(scales, kMost, 2, false, true, generator);
}

std::unique_ptr<Arena> make_arena(const Case& c, unsigned seed) {
  const FlushDenormals flush;
  std::mt19937 generator(seed);
  auto arena = std::make_unique<Arena>();
  std::memset(static_cast<void*>(arena->wire), 0x5a, sizeof(Arena) - offsetof(Arena, wire));
  for (std::size_t k = 0; k < std::max<std::size_t>(c.contributions, 2); ++k) {
    arena->gradients[k].resize(kMost);
    fill(arena->gradients[k].data(), kMost, size_of(c.gradient), c.gradient == DType::f16, false, generator);
  }
  Streams streams;  // any halves are not a master: (0, 0x8000) would be a NaN
  streams.count = kMost;
  streams.wire = arena->wire;
  streams.master = arena->master;
  fill(arena->decoded, kMost, 4, false, false, generator);
  supported_kernels().front()->store_master[static_cast<std::size_t>(c.master)](streams, arena->decoded);
  fill_moment(c.moments.first, arena->first, arena->first_scales, false, generator);
  fill_moment(c.moments.second, arena->second, arena->second_scales, true, generator);
  arena->lanes = {};
  return arena;
}

using Drive = std::function<void(const Kernels&, const Streams&, Arena&)>;

// What `drive` leaves behind, as bytes; elements that do not exist and arrays behind the last one included.
std::vector<std::byte> outcome(const Kernels& kernels, const Case& c, const Drive& drive, const Arena& start) {
  const FlushDenormals flush;
  const auto arena = std::make_unique<Arena>(start);
  std::memcpy(static_cast<void*>(arena->wire), start.wire, sizeof(Arena) - offsetof(Arena, wire));  // gaps, too
  const void* gradients[kMostContributions];
  for (std::size_t k = 0; k < kMostContributions; ++k) gradients[k] = arena->gradients[k].data();
  Streams streams;
  streams.count = c.count;
  streams.gradients = gradients;
  streams.contributions = c.contributions;
  streams.factor = 0.37f;
  streams.wire = arena->wire;
  streams.master = arena->master;
  streams.first = {arena->first, arena->first_scales};
  streams.second = {arena->second, arena->second_scales};
  streams.index = 1000;
  streams.key = rounding_key(7, 3, 5, 0);
  drive(kernels, streams, *arena);
  const auto* const begin = reinterpret_cast<const std::byte*>(arena->wire);
  return {begin, reinterpret_cast<const std::byte*>(arena.get() + 1)};
}

std::vector<std::byte> outcome(const Kernels& kernels, const Case& c, const Drive& drive) {
  return outcome(kernels, c, drive, *make_arena(c, static_cast<unsigned>(c.count + c.contributions)));
}

void expect_equal(const Case& c, const Arena& start, const char* kernel, const Drive& drive) {
  const std::vector<const Kernels*> sets = supported_kernels();
  const std::vector<std::byte> expected = outcome(*sets.front(), c, drive, start);
  for (const Kernels* set : sets) {
    ASSERT_TRUE(outcome(*set, c, drive, start) == expected)
        << kernel << " " << set->name << ": " << name_of(c.gradient) << " gradients, master "
        << static_cast<int>(c.master) << ", moments " << name_of(c.moments) << ", " << c.count << " elements, "
        << c.contributions << " contributions";
  }
}

template <typename Settings>
Settings some_settings() {
  Settings settings;
  settings.learning_rate = 0.01f;
  settings.weight_decay = 0.1f;
  return with_bias_correction(settings, 3);
}

void expect_all_equal(const Case& c) {
  const AdamWConstants adamw(some_settings<AdamWSettings>());
  const LambConstants lamb(some_settings<LambSettings>());
  const std::unique_ptr<Arena> start = make_arena(c, static_cast<unsigned>(c.count + c.contributions));
  expect_equal(c, *start, "adamw", [&](const Kernels& k, const Streams& s, Arena&) {
    k.adamw_of(c.gradient, c.master, c.moments)(s, adamw);
  });
  expect_equal(c, *start, "lamb moments", [&](const Kernels& k, const Streams& s, Arena& arena) {
    k.lamb_moments_of(c.gradient, c.master, c.moments)(s, lamb, arena.lanes);
  });
  expect_equal(c, *start, "lamb apply", [&](const Kernels& k, const Streams& s, Arena&) {
    k.lamb_apply_of(c.master, c.moments)(s, lamb, 0.02f);
  });
  expect_equal(c, *start, "sgd", [&](const Kernels& k, const Streams& s, Arena&) {
    k.sgd_of(c.gradient, c.master, c.moments.first)(s, {.learning_rate = 0.01f, .weight_decay = 0.1f});
  });
  expect_equal(c, *start, "squares", [&](const Kernels& k, const Streams& s, Arena& arena) {
    k.squares[index_of(c.gradient)](s, arena.lanes.weights);
  });
  expect_equal(c, *start, "sum", [&](const Kernels& k, const Streams& s, Arena& arena) {
    k.sum[index_of(c.gradient)](s, arena.decoded);
  });
  expect_equal(c, *start, "masters", [&](const Kernels& k, const Streams& s, Arena& arena) {
    k.load_master[static_cast<std::size_t>(c.master)](s, arena.decoded);
    k.store_master[static_cast<std::size_t>(c.master)](s, arena.gradients[1].data());
  });
  expect_equal(c, *start, "codecs", [&](const Kernels& k, const Streams& s, Arena& arena) {
    k.decode[0][static_cast<std::size_t>(c.moments.first)](s.first, s.count, arena.decoded);
    k.encode[1][static_cast<std::size_t>(c.moments.second)](s.second, s.count, arena.decoded);
    k.encode[0][static_cast<std::size_t>(c.moments.first)](s.first, s.count, arena.decoded);
  });
}

TEST(Kernels, EveryInstructionSetGivesTheSameBits) {
  for (const DType gradient : kTypes) {
    for (const MasterFormat master : kMasters) {
      if (!has_update_kernels(gradient, master)) continue;
      for (const NamedMomentFormats& moments : kMomentFormatNames) {
        for (const std::size_t contributions : {1, 2, 3, 8}) {
          expect_all_equal({gradient, master, moments.formats, 2048 + 29 * (contributions % 2), contributions});
        }
      }
    }
  }
}

TEST(Kernels, EveryLengthGivesTheSameBits) {
  for (std::size_t count = 1; count <= 70; ++count) {
    for (const NamedMomentFormats& moments : kMomentFormatNames) {
      expect_all_equal({DType::bf16, MasterFormat::split, moments.formats, count, 2});
    }
  }
}

TEST(Kernels, WriteNothingBehindARun) {
  const Case c{DType::f16, MasterFormat::beside_f16, kMomentFormatNames[3].formats, 530, 1};
  for (const Kernels* set : supported_kernels()) {
    const Drive update = [&](const Kernels& k, const Streams& s, Arena& arena) {
      const std::unique_ptr<Arena> before = make_arena(c, 531);
      k.adamw_of(c.gradient, c.master, c.moments)(s, AdamWConstants(some_settings<AdamWSettings>()));
      const auto same = [&](const void* now, const void* then, std::size_t from, std::size_t to) {
        return std::memcmp(static_cast<const char*>(now) + from, static_cast<const char*>(then) + from, to - from) == 0;
      };
      EXPECT_TRUE(same(arena.wire, before->wire, 530 * 2, sizeof arena.wire));
      EXPECT_TRUE(same(arena.master, before->master, 530 * 4, sizeof arena.master));
      EXPECT_TRUE(same(arena.first, before->first, 530, sizeof arena.first));
      EXPECT_TRUE(same(arena.second, before->second, 530, sizeof arena.second));
      EXPECT_TRUE(same(arena.first_scales, before->first_scales, 64, sizeof arena.first_scales));
      EXPECT_FALSE(same(arena.first_scales, before->first_scales, 32, 64));
    };
    outcome(*set, c, update);
  }
}

// A run may be cut at multiples of 512 elements; the last block has a few elements, or whole rows and a few.
TEST(Kernels, AnyCutAtWholeBlocksGivesTheSameBits) {
  for (std::size_t i = 0; i < 2 * kMomentPairs; ++i) {
    const NamedMomentFormats& moments = kMomentFormatNames[i / 2];
    const Case c{DType::f32, MasterFormat::f32, moments.formats, i % 2 == 0 ? 2077u : 2148u, 1};
    const AdamWConstants constants(some_settings<AdamWSettings>());
    const auto kernel = kernels().adamw_of(c.gradient, c.master, c.moments);
    const auto whole = outcome(kernels(), c, [&](const Kernels&, const Streams& s, Arena&) { kernel(s, constants); });
    const auto parts = outcome(kernels(), c, [&](const Kernels&, const Streams& s, Arena&) {
      for (const std::size_t begin : {1024, 0, 512, 1536, 2048}) {
        Streams part = s;
        const void* gradient[] = {static_cast<const float*>(s.gradients[0]) + begin};
        part.gradients = gradient;
        part.count = begin == 2048 ? c.count - begin : 512;
        part.wire = static_cast<float*>(s.wire) + begin;
        part.first = {static_cast<std::byte*>(s.first.codes) + begin * code_bytes(c.moments.first),
                      s.first.scales + begin / 32};
        part.second = {static_cast<std::byte*>(s.second.codes) + begin * code_bytes(c.moments.second),
                       s.second.scales + begin / 32};
        part.index = s.index + static_cast<std::uint32_t>(begin);
        kernel(part, constants);
      }
    });
    EXPECT_TRUE(whole == parts) << moments.name;
  }
}

// Sixteen lanes in double, in the order that optimizers/kernels.h states.
TEST(Kernels, SquaresAreThoseOfAPlainLoop) {
  const Case c{DType::bf16, MasterFormat::f32, {}, 1003, 3};
  outcome(kernels(), c, [&](const Kernels& k, const Streams& s, Arena& arena) {
    double lanes[16] = {};
    for (std::size_t i = 0; i < c.count; ++i) {
      const auto value = [&](std::size_t part) {
        return to_float(bf16{reinterpret_cast<const std::uint16_t*>(arena.gradients[part].data())[i]});
      };
      const float sum = value(0) + value(1) + value(2);
      lanes[i % 16] += static_cast<double>(sum) * static_cast<double>(sum);
    }
    k.squares[index_of(c.gradient)](s, arena.lanes.weights);
    EXPECT_EQ(std::memcmp(lanes, arena.lanes.weights, sizeof lanes), 0);
  });
}

TEST(Kernels, ThereIsNoneForFp16GradientsOfAnotherWire) {
  for (const MasterFormat master : {MasterFormat::f32, MasterFormat::split}) {
    EXPECT_FALSE(has_update_kernels(DType::f16, master));
    EXPECT_THROW(kernels().adamw_of(DType::f16, master, {}), Error);
    EXPECT_THROW(kernels().lamb_moments_of(DType::f16, master, {}), Error);
    EXPECT_THROW(kernels().sgd_of(DType::f16, master, MomentFormat::f32), Error);
  }
}

TEST(Kernels, AnUnknownInstructionSetNamesTheChoices) {
  try {
    kernels_named("sse9");
    FAIL();
  } catch (const BadInput& error) {
    EXPECT_NE(std::string(error.what()).find("portable"), std::string::npos);
  }
  EXPECT_STREQ(kernels_named("portable").name, "portable");
  EXPECT_EQ(&kernels_named(""), supported_kernels().back());
}

}  // namespace
}  // namespace l2l::optimizers

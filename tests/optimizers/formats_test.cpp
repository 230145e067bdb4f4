// What the formats of state promise: exactness, error bounds, rounding without bias, and accuracy over many updates.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>

#include "core/denormals.h"
#include "l2l/errors.h"
#include "optimizers/kernels.h"
#include "optimizers/rounding.h"
#include "tests/support/moment_errors.h"

namespace l2l::optimizers {
namespace {

AdamWSettings adamw_settings(float decay = 0) {
  AdamWSettings settings;
  settings.learning_rate = 1e-3f;
  settings.weight_decay = decay;
  return settings;
}

// FormatState of an AdamW over fp32 masters with moments in some format.
struct FormatState {
  MomentFormats formats;
  std::vector<float> w;
  std::vector<std::byte> codes[2];
  std::vector<std::uint16_t> scales[2];

  FormatState(MomentFormats moments, std::size_t count) : formats(moments), w(count) {
    for (int i = 0; i < 2; ++i) {
      codes[i].resize(count * code_bytes(format(i)));
      scales[i].resize(scale_bytes(format(i), count) / 2);
    }
  }
  MomentFormat format(int moment) const { return moment == 0 ? formats.first : formats.second; }
  MomentStream stream(int moment) { return {codes[moment].data(), scales[moment].data()}; }
  std::vector<float> moment(int index) {
    std::vector<float> values(w.size());
    kernels().decode[index][static_cast<std::size_t>(format(index))](stream(index), w.size(), values.data());
    return values;
  }
  void set_moment(int index, const std::vector<float>& values) {
    kernels().encode[index][static_cast<std::size_t>(format(index))](stream(index), w.size(), values.data());
  }
  void update(const std::vector<float>& gradient, const AdamWSettings& settings, std::uint64_t count) {
    const void* gradients[] = {gradient.data()};
    Streams streams;
    streams.count = w.size();
    streams.gradients = gradients;
    streams.contributions = 1;
    streams.wire = w.data();
    streams.first = stream(0);
    streams.second = stream(1);
    streams.key = rounding_key(11, 2, count, 0);
    kernels().adamw_of(DType::f32, MasterFormat::f32, formats)(streams,
                                                               AdamWConstants(with_bias_correction(settings, count)));
  }
};

TEST(Formats, HaveNamesAndSizes) {
  EXPECT_EQ(name_of(parse_moment_formats("bf16_first")), "bf16_first");
  EXPECT_THROW(parse_moment_formats("fp8"), BadInput);
  EXPECT_THROW(index_of(MomentFormats{MomentFormat::f32, MomentFormat::int8}), BadInput);
  EXPECT_EQ(code_bytes(MomentFormat::int8) * 512 + scale_bytes(MomentFormat::int8, 512), 512 + 32u);
  EXPECT_EQ(scale_bytes(MomentFormat::int8, 513), 64u);
}

// Moments that one update without a gradient leaves: beta times what they were.
struct Rounded {
  std::vector<double> before[2];  // in double, before rounding
  std::vector<float> after[2];
};

Rounded decay_once(MomentFormats formats, const std::vector<float>& values) {
  FormatState state(formats, values.size());
  Rounded rounded;
  const AdamWSettings settings = adamw_settings();
  const float beta[2] = {settings.beta1, settings.beta2};
  for (int i = 0; i < 2; ++i) {
    state.set_moment(i, values);
    for (const float value : state.moment(i)) rounded.before[i].push_back(static_cast<double>(beta[i] * value));
  }
  state.update(std::vector<float>(values.size()), settings, 1);
  for (int i = 0; i < 2; ++i) rounded.after[i] = state.moment(i);
  return rounded;
}

constexpr std::size_t kMany = 512 * 200;

// Of each block the first two rows, which are in every lane, are larger, so that the scales of int8 do not follow from
// the value.
std::vector<float> constant_values(float value) {
  std::vector<float> values(kMany, value);
  for (std::size_t i = 0; i < kMany; i += 512) std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(i), 32, 1.0f);
  return values;
}

// Sum of the errors over its standard deviation, were they independent with mean 0; the first two rows of blocks apart.
double bias(const std::vector<double>& before, const std::vector<float>& after) {
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (i % 512 < 32) continue;
    const double error = static_cast<double>(after[i]) - before[i];
    sum += error;
    squares += error * error;
  }
  return squares == 0 ? 0 : std::abs(sum) / std::sqrt(squares);
}

TEST(Formats, StochasticRoundingIsUnbiased) {
  for (const char* name : {"bf16", "int8"}) {
    for (const float value : {0.7137f, 0.0313f, 0.00171f}) {
      const Rounded rounded = decay_once(parse_moment_formats(name), constant_values(value));
      for (int i = 0; i < 2; ++i) EXPECT_LT(bias(rounded.before[i], rounded.after[i]), 5) << name << value << i;
    }
  }
}

// Negative control: rounding to nearest.
TEST(Formats, RoundingToNearestIsSeenAsBiased) {
  for (const char* name : {"bf16", "int8"}) {
    Rounded rounded = decay_once(parse_moment_formats(name), constant_values(0.7137f));
    FormatState state(parse_moment_formats(name), kMany);
    for (int i = 0; i < 2; ++i) {
      state.set_moment(i, {rounded.before[i].begin(), rounded.before[i].end()});
      EXPECT_GT(bias(rounded.before[i], state.moment(i)), 100) << name << i;
    }
  }
}

std::vector<float> spread_values(std::size_t count, double decades, unsigned seed) {
  std::mt19937 generator(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    const double exponent = -decades * std::uniform_real_distribution<double>()(generator);
    value = static_cast<float>(std::pow(10.0, exponent));
  }
  return values;
}

TEST(Formats, ErrorsStayWithinTheirBounds) {
  const std::vector<float> values = spread_values(512 * 20 + 77, 6, 3);
  const Rounded bf16 = decay_once(parse_moment_formats("bf16"), values);
  for (int i = 0; i < 2; ++i) {
    for (std::size_t k = 0; k < values.size(); ++k) {
      ASSERT_LT(std::abs(static_cast<double>(bf16.after[i][k]) - bf16.before[i][k]),
                ::l2l::testing::error_bound(MomentFormat::bf16) * bf16.before[i][k]);
    }
  }
  const Rounded int8 = decay_once(parse_moment_formats("int8"), values);
  for (std::size_t k = 0; k < values.size(); ++k) {
    double most[2] = {0, 0};  // of the element's lane in its block
    for (std::size_t row = k / 512 * 512; row < std::min(values.size(), k / 512 * 512 + 512); row += 32) {
      for (std::size_t i = row + k % 32 / 2 * 2; i < std::min(values.size(), row + k % 32 / 2 * 2 + 2); ++i) {
        for (int moment = 0; moment < 2; ++moment) most[moment] = std::max(most[moment], int8.before[moment][i]);
      }
    }
    for (int moment = 0; moment < 2; ++moment) {
      const double before = int8.before[moment][k], first_step = most[moment] / (moment == 0 ? 247 : 63487) / 16;
      ASSERT_LE(std::abs(static_cast<double>(int8.after[moment][k]) - before),
                1.01 * first_step + before * (1 / 16.0 + 1e-5))
          << moment;
    }
    ASSERT_GT(int8.after[1][k], 0);
  }
}

// Every code of every lane, in whole blocks and in a part of one, against the definition in optimizers/formats/int8.h.
TEST(Formats, Int8CodesMeanWhatIsSaidOfThem) {
  constexpr std::size_t kCount = 512 + 77;
  for (const Kernels* const kernels : supported_kernels()) {
    for (int moment = 0; moment < 2; ++moment) {
      const auto format = static_cast<std::size_t>(MomentFormat::int8);
      FormatState state(parse_moment_formats("int8"), kCount);
      for (int turn = 0; turn < 16; ++turn) {  // each element has each code once in 256 turns; lanes have 32 elements
        std::vector<double> expected(kCount);
        for (std::size_t i = 0; i < kCount; ++i) {
          const std::size_t scale = i / 512 * 16 + i % 32 / 2;
          state.scales[moment][scale] = to_bf16(std::ldexp(1.25f, static_cast<int>(scale) - 20)).bits;
          // The first element of a lane has its largest code, so that encoding finds the same scale.
          const bool first = i % 512 < 32 && i % 2 == 0;
          const auto code = static_cast<unsigned>(first ? (moment == 0 ? 127 : 255)
                                                        : (i * 16 + i / 16 + 37u * static_cast<unsigned>(turn)) % 256);
          state.codes[moment][i] = static_cast<std::byte>(code);
          const unsigned c = moment == 0 ? code & 127u : code;
          const double t = std::ldexp(1 + c % 16 / 16.0, static_cast<int>(c / 16)) - 1, top = moment == 0 ? 247 : 63487;
          const double sign = moment == 0 && code >= 128 ? -1 : 1;
          expected[i] = sign * std::ldexp(1.25, static_cast<int>(scale) - 20) * t / top;
        }
        const std::vector<std::byte> codes = state.codes[moment];
        const std::vector<std::uint16_t> scales = state.scales[moment];
        std::vector<float> values(kCount);
        kernels->decode[moment][format](state.stream(moment), kCount, values.data());
        for (std::size_t i = 0; i < kCount; ++i) {
          ASSERT_NEAR(static_cast<double>(values[i]), expected[i], 1e-6 * std::abs(expected[i]))
              << kernels->name << " " << moment << " " << i;
        }
        std::fill(state.codes[moment].begin(), state.codes[moment].end(), std::byte{0x55});
        std::fill(state.scales[moment].begin(), state.scales[moment].end(), std::uint16_t{0});
        kernels->encode[moment][format](state.stream(moment), kCount, values.data());
        for (std::size_t i = 0; i < kCount; ++i) {
          const std::byte raised = moment == 1 && codes[i] == std::byte{0} ? std::byte{1} : codes[i];
          ASSERT_EQ(state.codes[moment][i], raised) << kernels->name << " " << moment << " " << i;
        }
        EXPECT_EQ(state.scales[moment], scales);
      }
    }
  }
}

// A lane of zeros stays one, whatever their signs; what is too large for a scale has the largest code.
TEST(Formats, Int8KeepsZerosAndSaturates) {
  for (const Kernels* const kernels : supported_kernels()) {
    FormatState state(parse_moment_formats("int8"), 512);
    const auto through = [&](int moment, const std::vector<float>& values) {
      std::vector<float> found(values.size());
      constexpr auto kFormat = static_cast<std::size_t>(MomentFormat::int8);
      kernels->encode[moment][kFormat](state.stream(moment), values.size(), values.data());
      kernels->decode[moment][kFormat](state.stream(moment), found.size(), found.data());
      return found;
    };
    for (int moment = 0; moment < 2; ++moment) {
      for (const float zero : {0.0f, -0.0f}) {
        for (const float value : through(moment, std::vector<float>(512, zero))) ASSERT_EQ(value, 0) << kernels->name;
      }
      std::vector<float> values(512, 1.0f);
      values[7] = std::numeric_limits<float>::infinity();
      const std::vector<float> found = through(moment, values);
      EXPECT_GT(found[7], 3e38f);
      EXPECT_NEAR(found[100], 1, 1e-6f);
    }
  }
}

TEST(Formats, Bf16GivesBackWhatItHolds) {
  FormatState state(parse_moment_formats("bf16"), 1000);
  for (int i = 0; i < 2; ++i) {
    state.set_moment(i, spread_values(1000, 6, 4));
    const std::vector<std::byte> codes = state.codes[i];
    state.set_moment(i, state.moment(i));
    EXPECT_TRUE(codes == state.codes[i]);
  }
}

TEST(Formats, TheLargestBf16StaysFinite) {
  const Rounded rounded = decay_once(parse_moment_formats("bf16"), std::vector<float>(4096, 0x1.fep127f));
  for (int i = 0; i < 2; ++i) {
    for (const float value : rounded.after[i]) ASSERT_TRUE(std::isfinite(value)) << i;
  }
  FormatState state(parse_moment_formats("bf16"), 16);
  state.set_moment(0, std::vector<float>(16, -0x1.fep127f));
  EXPECT_EQ(state.moment(0)[3], -0x1.fep127f);
}

// Error of the way that the weights went in 1,000 updates, against float64. Gradients: noise around a mean, all times a
// magnitude of the element's own, which spans `decades`. Rounding to nearest after each update in place of stochastic
// rounding: `nearest`.
double error_after_a_thousand_updates(MomentFormats formats, double decades, bool nearest = false) {
  const FlushDenormals flush;
  constexpr std::size_t kCount = 4096;
  const std::vector<float> magnitude = spread_values(kCount, decades, 5);
  FormatState state(nearest ? MomentFormats() : formats, kCount), rounded(formats, kCount);
  std::vector<double> w(kCount), m(kCount), v(kCount);
  const AdamWSettings settings = adamw_settings();
  const double beta1 = settings.beta1, beta2 = settings.beta2;
  std::mt19937 generator(6);
  std::vector<float> gradient(kCount);
  std::vector<float> noise(1 << 16);
  for (float& value : noise) value = std::normal_distribution<float>()(generator);
  for (unsigned t = 1; t <= 1000; ++t) {
    const std::size_t shift = generator() % (noise.size() - kCount);
    for (std::size_t i = 0; i < kCount; ++i) gradient[i] = magnitude[i] * (noise[shift + i] + 0.1f);
    state.update(gradient, settings, t);
    for (int i = 0; nearest && i < 2; ++i) {
      rounded.set_moment(i, state.moment(i));
      state.set_moment(i, rounded.moment(i));
    }
    const double c1 = 1 - std::pow(beta1, t), c2 = 1 - std::pow(beta2, t);
    for (std::size_t i = 0; i < kCount; ++i) {
      const double g = static_cast<double>(gradient[i]);
      m[i] = beta1 * m[i] + (1 - beta1) * g;
      v[i] = beta2 * v[i] + (1 - beta2) * g * g;
      w[i] -= static_cast<double>(settings.learning_rate) * (m[i] / c1) /
              (std::sqrt(v[i] / c2) + static_cast<double>(settings.epsilon));
    }
  }
  double error = 0, way = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    const double difference = static_cast<double>(state.w[i]) - w[i];
    error += difference * difference;
    way += w[i] * w[i];
  }
  return std::sqrt(error / way);
}

TEST(Formats, FollowFloat64OverAThousandUpdates) {
  for (const double decades : {0.0, 3.0}) {
    for (const NamedMomentFormats& moments : kMomentFormatNames) {
      const double error = error_after_a_thousand_updates(moments.formats, decades);
      const double int8 = decades == 0 ? 7e-2 : 0.12;
      const double limit = moments.name == "int8"         ? int8
                           : moments.name == "bf16"       ? 1.2e-2
                           : moments.name == "bf16_first" ? 2e-3
                                                          : 2e-5;
      EXPECT_LT(error, limit) << moments.name << " over " << decades << " decades";
      RecordProperty(std::string(moments.name) + "_" + std::to_string(static_cast<int>(decades)),
                     std::to_string(error));
    }
  }
}

// Negative control: a second moment that is rounded to nearest stands still, since one update changes it by less than a
// unit.
TEST(Formats, RoundingToNearestIsSeenAsWorse) {
  const MomentFormats bf16 = parse_moment_formats("bf16");
  const double stochastic = error_after_a_thousand_updates(bf16, 0);
  EXPECT_GT(error_after_a_thousand_updates(bf16, 0, true), 1.3 * stochastic);
}

// Of one run of updates: the master as fp32, the wire that it leaves, and the moments.
struct MasterRun {
  std::vector<float> master;
  std::vector<std::uint16_t> wire;
  std::vector<std::byte> codes[2];
};

MasterRun updates_of(const Kernels& kernels, MasterFormat format, MomentFormats moments) {
  constexpr std::size_t kElements = 1111;
  std::mt19937 generator(9);
  std::vector<float> values(kElements), gradient(kElements);
  for (float& value : values) value = std::normal_distribution<float>(0, 0.02f)(generator);
  FormatState state(moments, kElements);
  MasterRun run{values, std::vector<std::uint16_t>(kElements), {}};
  std::vector<std::uint16_t> low(kElements);
  std::vector<float> beside(kElements);
  Streams streams;
  streams.count = kElements;
  streams.wire = format == MasterFormat::f32 ? static_cast<void*>(run.master.data()) : run.wire.data();
  streams.master = format == MasterFormat::split ? static_cast<void*>(low.data()) : beside.data();
  streams.first = state.stream(0);
  streams.second = state.stream(1);
  streams.contributions = 1;
  kernels.store_master[static_cast<std::size_t>(format)](streams, values.data());
  for (unsigned t = 1; t <= 5; ++t) {
    for (float& value : gradient) value = std::normal_distribution<float>(0, 0.1f)(generator);
    const void* gradients[] = {gradient.data()};
    streams.gradients = gradients;
    streams.key = t;
    const AdamWConstants constants(with_bias_correction(adamw_settings(0.1f), t));
    kernels.adamw_of(DType::f32, format, moments)(streams, constants);
  }
  kernels.load_master[static_cast<std::size_t>(format)](streams, run.master.data());
  for (int i = 0; i < 2; ++i) run.codes[i] = state.codes[i];
  return run;
}

// Moments in 16 bits are updated in pairs of rows, other than moments in fp32.
TEST(Formats, EveryMasterIsThePlainFp32OneWithEveryMoment) {
  const FlushDenormals flush;
  for (const Kernels* const kernels : supported_kernels()) {
    for (const char* const moments : {"fp32", "bf16_first", "bf16", "int8"}) {
      const MomentFormats formats = parse_moment_formats(moments);
      const MasterRun plain = updates_of(*kernels, MasterFormat::f32, formats);
      for (const MasterFormat format : {MasterFormat::split, MasterFormat::beside_f16}) {
        const MasterRun run = updates_of(*kernels, format, formats);
        EXPECT_EQ(run.master, plain.master) << kernels->name << " " << moments;
        EXPECT_EQ(run.codes[0], plain.codes[0]) << kernels->name << " " << moments;
        EXPECT_EQ(run.codes[1], plain.codes[1]) << kernels->name << " " << moments;
        for (std::size_t i = 0; i < run.wire.size(); ++i) {
          const float value = plain.master[i];
          ASSERT_EQ(run.wire[i], format == MasterFormat::split ? to_bf16(value).bits : to_f16(value).bits)
              << kernels->name << " " << moments << " " << i;
        }
      }
    }
  }
}

// Issue point b: the split master is the fp32 master, to the bit, over 10,000 updates; of 10^6 parameters where
// L2L_LONG_TESTS is set, else of fewer.
TEST(Formats, SplitMasterIsThePlainFp32OneOverTenThousandUpdates) {
  const FlushDenormals flush;
  const std::size_t count = std::getenv("L2L_LONG_TESTS") != nullptr ? 1'000'000 : 20'000;
  constexpr unsigned kUpdates = 10'000;
  std::mt19937 generator(8);
  std::vector<std::uint16_t> noise(count + 65536);
  for (std::uint16_t& value : noise) value = to_bf16(std::normal_distribution<float>(0, 0.1f)(generator)).bits;
  std::vector<float> w(count), m(count), v(count), m_split(count), v_split(count), joined(count);
  for (float& value : w) value = std::normal_distribution<float>(0, 0.02f)(generator);
  std::vector<std::uint16_t> wire(count), low(count);
  Streams streams;
  streams.count = count;
  streams.wire = wire.data();
  streams.master = low.data();
  streams.first.codes = m_split.data();
  streams.second.codes = v_split.data();
  streams.contributions = 1;
  constexpr auto kSplit = static_cast<std::size_t>(MasterFormat::split);
  kernels().store_master[kSplit](streams, w.data());
  for (unsigned t = 1; t <= kUpdates; ++t) {
    const std::uint16_t* const gradient = noise.data() + generator() % 65536;
    const void* gradients[] = {gradient};
    streams.gradients = gradients;
    const AdamWConstants c(with_bias_correction(adamw_settings(0.1f), t));
    kernels().adamw_of(DType::bf16, MasterFormat::split, {})(streams, c);
    float *const pw = w.data(), *const pm = m.data(), *const pv = v.data();
    for (std::size_t i = 0; i < count; ++i) {
      const float g = to_float(bf16{gradient[i]});
      pm[i] = std::fma(c.beta1, pm[i], c.rest1 * g);
      pv[i] = std::fma(c.beta2, pv[i], c.rest2 * g * g);
      pw[i] = std::fma(c.keep, pw[i], -(c.step * pm[i] / (std::sqrt(pv[i]) + c.epsilon)));
    }
  }
  kernels().load_master[kSplit](streams, joined.data());
  EXPECT_EQ(std::memcmp(joined.data(), w.data(), count * sizeof(float)), 0);
  EXPECT_EQ(std::memcmp(m_split.data(), m.data(), count * sizeof(float)), 0);
}

}  // namespace
}  // namespace l2l::optimizers

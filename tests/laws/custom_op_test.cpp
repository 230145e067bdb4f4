// Ops of a program's own (include/l2l/custom_op.h) in a GPT block: the laws hold for them as for built-in ops, and a
// wrong gradient is noticed.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>

#include "l2l/graph.h"
#include "l2l/testing.h"
#include "tests/laws/small_run.h"
#include "tests/support/refusal.h"

namespace l2l::custom_op {
namespace {

using testing::Record;
using testing::SmallRun;
using Values = std::vector<Value>;
using Inputs = std::span<const Value>;

// SiLU with a slope per column: x / (1 + e^(-b x)), b a parameter. `slip`: of the gradient of b.
CustomOp swish(float slip = 0) {
  CustomOp op{.name = "swish", .version = "1"};
  op.forward = [](const CustomForward& call) {
    for (std::size_t i = 0; i < call.x.size(); ++i) {
      const float b = call.parameters[i % call.parameters.size()];
      call.y[i] = call.x[i] / (1.0f + std::exp(-b * call.x[i]));
    }
  };
  op.backward = [slip](const CustomBackward& call) {
    for (std::size_t i = 0; i < call.x.size(); ++i) {
      const std::size_t column = i % call.parameters.size();
      const float x = call.x[i], b = call.parameters[column], s = 1.0f / (1.0f + std::exp(-b * x));
      call.dx[i] = call.dy[i] * (s + b * x * s * (1.0f - s));
      if (!call.dparameters.empty()) call.dparameters[column] += call.dy[i] * x * x * s * (1.0f - s) * (1.0f + slip);
    }
  };
  return op;
}

// A GPT block of 24 columns whose activation is `activation(graph, x)`.
template <typename Activation>
Layer::Build block(const Activation& activation) {
  return [activation](LayerBuilder& graph, Inputs inputs) -> Values {
    const auto norm = [&](Value x, const std::string& name) {
      const Value gain = graph.vector(name + ".weight", 24, Distribution::ones());
      return graph.layer_norm(x, gain, graph.vector(name + ".bias", 24, Distribution::zeros()));
    };
    const auto linear = [&](Value x, const std::string& name, std::int64_t out) {
      const Value w = graph.matrix(name, graph.columns(x), out, Distribution::normal(0.1));
      return graph.linear(x, w);
    };
    Value x = inputs[0];
    const Value mixed = graph.attention(linear(norm(x, "ln_1"), "qkv", 72), {.heads = 3, .dropout = 0.1});
    x = graph.add(x, linear(mixed, "out", 24));
    return {graph.add(x, graph.dropout(linear(activation(graph, linear(norm(x, "ln_2"), "up", 96)), "down", 24), 0.1))};
  };
}

Layer::Build with(const CustomOp& op) {
  return block([shared = std::make_shared<const CustomOp>(op)](LayerBuilder& graph, Value x) {
    const Value slopes = graph.vector("slopes", graph.columns(x), Distribution::ones());
    return graph.custom(x, shared, slopes);
  });
}

class CustomOps : public ::testing::Test {
 protected:
  Options options(const Layer::Build& build, const char* compute = "fp32") const {
    Options options = run_.options();
    options.device.kind = "host";
    options.checkpoint.directory.clear();
    options.precision.compute = compute;
    options.model.blocks = {{0, "swish", build}, {1, {}, {}}, {2, "swish", build}};
    return options;
  }
  static Record record(const Options& options) { return testing::record_of(options, 4); }

  const SmallRun run_;
};

TEST_F(CustomOps, GiveTheSameBitsHoweverTheyAreRun) {
  for (const char* const compute : {"fp32", "bf16"}) {
    testing::expect_same_bits(options(with(swish()), compute), record, compute,
                              {{"min_cut", [](Options& o) { o.recompute.policy = "min_cut"; }},
                               {"auto", [](Options& o) { o.recompute.policy = "auto"; }}});
  }
}

// With all slopes at 1, which stay there, it is SiLU.
// Keeps about half of the elements, by a hash of where they are.
CustomOp halving() {
  const auto keeps = [](const DrawPlace& place, std::uint32_t op, std::int64_t row, std::int64_t column) {
    std::uint64_t hash = place.seed;
    for (const std::uint64_t each :
         {std::uint64_t{place.step}, std::uint64_t{place.layer}, std::uint64_t{op}, std::uint64_t{place.microbatch},
          static_cast<std::uint64_t>(row), static_cast<std::uint64_t>(column)}) {
      hash = (hash ^ each) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 29;
    }
    return !place.training || hash % 2 == 0;
  };
  const auto apply = [keeps](const auto& call, std::span<const float> from, std::span<float> to) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      const auto row = call.first_row + static_cast<std::int64_t>(i) / call.columns;
      const bool kept = keeps(call.place, call.op, row, static_cast<std::int64_t>(i) % call.columns);
      to[i] = kept ? (call.place.training ? 2.0f : 1.0f) * from[i] : 0.0f;
    }
  };
  CustomOp op{.name = "halving", .version = "1"};
  op.draws = true;
  op.forward = [apply](const CustomForward& call) { apply(call, call.x, call.y); };
  op.backward = [apply](const CustomBackward& call) { apply(call, call.dy, call.dx); };
  return op;
}

// Forward, recomputed and backward draws agree, however the run is executed; seed, step and op have draws of their own.
TEST_F(CustomOps, DrawTheSameNumbersHoweverTheyAreRun) {
  const auto build = [](int ops, bool draw) {
    return block([=, shared = std::make_shared<const CustomOp>(halving())](LayerBuilder& graph, Value x) {
      for (int i = 0; draw && i < ops; ++i) x = graph.custom(x, shared);
      return graph.gelu(x);
    });
  };
  for (const char* const compute : {"fp32", "bf16"}) {
    testing::expect_same_bits(options(build(1, true), compute), record, compute,
                              {{"min_cut", [](Options& o) { o.recompute.policy = "min_cut"; }},
                               {"one thread", [](Options& o) { o.device.threads = 1; }}});
  }
  const Record drawn = record(options(build(1, true)));
  EXPECT_NE(record(options(build(1, false))), drawn);
  Options other_seed = options(build(1, true));
  other_seed.run.seed = 5;
  EXPECT_NE(record(other_seed), drawn);
  // Were the second op's draws those of the first, it would only double what is kept.
  std::vector<double> kept;
  for (const int ops : {1, 2}) {
    const CustomOp op = halving();
    std::vector<float> x(4000, 1.0f), y(4000);
    for (int i = 0; i < ops; ++i) {
      op.forward({.rows = 40,
                  .columns = 100,
                  .result_columns = 100,
                  .x = x,
                  .parameters = {},
                  .y = y,
                  .op = static_cast<std::uint32_t>(i)});
      x = y;
    }
    kept.push_back(static_cast<double>(std::ranges::count_if(y, [](float v) { return v != 0; })) / 4000);
  }
  EXPECT_NEAR(kept[0], 0.5, 0.05);
  EXPECT_NEAR(kept[1], 0.25, 0.05);
  Trainer trainer(options(build(1, true)));
  EXPECT_EQ(trainer.validation_loss().value(), trainer.validation_loss().value());
}

TEST_F(CustomOps, TrainLikeTheBuiltInOpThatTheyRepeat) {
  Options built_in = options(block([](LayerBuilder& graph, Value x) {
    graph.vector("slopes", graph.columns(x), Distribution::ones());
    return graph.silu(x);
  }));
  Options custom = options(with(swish()));
  built_in.optimizer.train = custom.optimizer.train = {"*down*", "*up*", "*qkv*"};
  const Record expected = record(built_in), actual = record(custom);
  for (std::size_t i = 0; i < expected.losses.size(); ++i) EXPECT_NEAR(actual.losses[i], expected.losses[i], 1e-6);
  // The slopes alone, whose gradient comes from nowhere but dparameters.
  built_in.model.blocks = options(block([](LayerBuilder& graph, Value x) {
                            const Value slopes = graph.vector("slopes", graph.columns(x), Distribution::ones());
                            return graph.multiply(x, graph.sigmoid(graph.multiply(x, slopes)));
                          })).model.blocks;
  built_in.optimizer.train = custom.optimizer.train = {"*slopes*"};
  const Record of_parts = record(built_in), of_slopes = record(custom);
  for (std::size_t i = 0; i < of_parts.norms.size(); ++i) {
    EXPECT_GT(of_parts.norms[i], 0);
    EXPECT_NEAR(of_slopes.norms[i], of_parts.norms[i], 1e-4 * of_parts.norms[i]);
  }
}

TEST_F(CustomOps, AWrongGradientIsNoticed) {
  EXPECT_LT(gradient_error(swish(), 7, 12, 12), 0.01);
  EXPECT_GT(gradient_error(swish(0.2f), 7, 12, 12), 0.05);
  CustomOp wrong = swish();
  wrong.backward = [right = wrong.backward](const CustomBackward& call) {
    right(call);
    for (float& number : call.dx) number *= 0.9f;
  };
  EXPECT_GT(gradient_error(wrong, 7, 12, 12), 0.05);
  const auto spoil = [&](const auto& spoiled) {
    CustomOp op = swish();
    op.backward = [right = op.backward, spoiled](const CustomBackward& call) { spoiled(call, right); };
    return gradient_error(op, 7, 12, 12);
  };
  EXPECT_GT(spoil([](const CustomBackward& call, const auto& right) { right(call), call.dx[3] = NAN; }), 1e30);
  EXPECT_GT(spoil([](const CustomBackward&, const auto&) {}), 1e30) << "dx was not written";
  EXPECT_GT(spoil([](const CustomBackward& call, const auto& right) {
              for (float& number : call.dparameters) number = 0;
              right(call);
            }),
            0.05)
      << "dparameters were overwritten";
  wrong.backward = nullptr;
  EXPECT_THROW(gradient_error(wrong, 7, 12, 12), BadInput);
}

TEST_F(CustomOps, AGradientOfTooManyNumbersIsRefused) {
  constexpr auto kHuge = [](int power) { return std::int64_t{1} << power; };
  CustomOp wide = swish();
  wide.result_columns = [=](std::int64_t) { return kHuge(40); };
  EXPECT_THROW(gradient_error(swish(), kHuge(33), kHuge(31), 12), BadInput);
  EXPECT_THROW(gradient_error(swish(), kHuge(20), kHuge(20), 12), BadInput);
  EXPECT_THROW(gradient_error(swish(), 7, 12, kHuge(40)), BadInput);
  EXPECT_THROW(gradient_error(wide, 7, 12, 12), BadInput);
}

TEST_F(CustomOps, OfAnotherVersionAreNoticedWhenARunGoesOn) {
  CustomOp other = swish();
  other.version = "2";
  Options first = options(with(swish()));
  first.checkpoint.directory = run_.folder() / "versions";
  {
    Trainer trainer(first);
    trainer.step();
    trainer.save();
  }
  const auto go_on = [&](const CustomOp& op, const std::vector<std::string>& allowed) {
    return testing::refusal([&] {
      Options changed = first;
      changed.model.blocks = options(with(op)).model.blocks;
      Trainer trainer(changed);
      trainer.resume(first.checkpoint.directory, allowed);
      trainer.step();
    });
  };
  EXPECT_EQ(go_on(swish(), {}), "(none)");
  EXPECT_NE(go_on(other, {}).find("model.custom_ops = [\"swish 2\"] (was [\"swish 1\"])"), std::string::npos)
      << go_on(other, {});
  EXPECT_EQ(go_on(other, {"model.custom_ops"}), "(none)");
}

TEST_F(CustomOps, WhatTheyThrowEndsTheRun) {
  const auto calls = std::make_shared<std::atomic<int>>(0);
  CustomOp failing = swish();
  failing.forward = [calls, honest = failing.forward](const CustomForward& call) {
    if (++*calls > 40) throw BadInput("no more of this");
    honest(call);
  };
  Trainer trainer(options(with(failing)));
  try {
    for (int i = 0; i < 20; ++i) trainer.step();
    FAIL() << "the run went on";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("no more of this"), std::string::npos) << error.what();
  }
}

// What is no Error of the library is nested in one that names op and layer.
TEST_F(CustomOps, WhatTheyThrowIsNested) {
  struct Refusal {};
  const auto nested_of = [&](CustomOp op) {
    Options failing = options(with(op));
    failing.model.blocks[0] = {.id = 7};
    Trainer trainer(failing);
    std::string said;
    try {
      trainer.step();
    } catch (const Error& error) {
      said = error.what();
      try {
        std::rethrow_if_nested(error);
      } catch (const std::exception& nested) {
        said += std::string(" <- ") + nested.what();
      } catch (const Refusal&) {
        said += " <- Refusal";
      }
    }
    return said;
  };
  CustomOp op = swish();
  op.forward = [](const CustomForward&) { throw std::out_of_range("no such row"); };
  EXPECT_EQ(nested_of(op), "custom op \"swish\" of layer 2: no such row <- no such row");
  op = swish();
  op.backward = [](const CustomBackward&) { throw Refusal(); };
  EXPECT_EQ(nested_of(op), "custom op \"swish\" of layer 2: what was thrown is no std::exception <- Refusal");
}

TEST_F(CustomOps, WhatIsMissingIsRefused) {
  const auto says = [&](const CustomOp& op) { return testing::refusal([&] { Trainer trainer(options(with(op))); }); };
  CustomOp wide = swish();
  wide.result_columns = [](std::int64_t) { return std::int64_t{1} << 62; };
  EXPECT_NE(says(wide).find("custom op \"swish\": makes 4611686018427387904 columns"), std::string::npos) << says(wide);
  CustomOp nameless = swish(), halved = swish();
  nameless.version.clear();
  halved.backward = nullptr;
  EXPECT_NE(says(nameless).find("needs a name without spaces and a version"), std::string::npos) << says(nameless);
  EXPECT_NE(says(halved).find("custom op \"swish\": forward or backward is missing"), std::string::npos)
      << says(halved);
}

}  // namespace
}  // namespace l2l::custom_op

// Samples that bring bytes and halves (TensorSpec::Element): the run is that of the same numbers as floats, to the bit.
#include <gtest/gtest.h>

#include <cstring>

#include "core/dtype.h"
#include "tests/laws/custom_runs.h"
#include "tests/support/refusal.h"

namespace l2l {
namespace {

using Element = TensorSpec::Element;
using testing::Record;

// Numbers that every type of two bytes holds, and bytes.
std::vector<float> numbers_of(std::uint64_t index, std::size_t count, bool bytes) {
  std::vector<float> numbers(count);
  auto state = static_cast<std::uint32_t>(index) * 2654435761u + 1;
  for (float& number : numbers) {
    state = state * 1664525u + 1013904223u;
    number = bytes ? static_cast<float>(state >> 24) : static_cast<float>(state >> 25) / 64 - 1;
  }
  return numbers;
}

// The same numbers, whatever types the tensors are of.
void write(const SampleView& sample, std::uint64_t index, bool halves_as_bits) {
  const auto fill = [&](std::span<const TensorSpec> specs, const auto& set) {
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const bool bytes = specs[i].name.starts_with("bytes");
      const std::vector<float> numbers = numbers_of(index * 16 + i, testing::elements_of(specs[i]), bytes);
      if (specs[i].element == Element::u8) {
        const std::vector<std::uint8_t> all(numbers.begin(), numbers.end());
        set(i, std::span(all));
      } else if (halves_as_bits && specs[i].element != Element::f32) {
        const bool f16s = specs[i].element == Element::f16;
        std::vector<std::uint16_t> bits;
        for (const float number : numbers) bits.push_back(f16s ? to_f16(number).bits : to_bf16(number).bits);
        set(i, std::span<const std::uint16_t>(bits));
      } else {
        set(i, std::span(numbers));
      }
    }
  };
  fill(sample.input_tensors, [&](std::size_t i, auto values) { sample.set_input(i, values); });
  fill(sample.target_tensors, [&](std::size_t i, auto values) { sample.set_target(i, values); });
}

// Of inputs and targets that do not fill their last word.
Options options_of(Element bytes, Element half, Element brain, bool halves_as_bits = false) {
  ModelOptions model{.architecture = "custom"};
  model.inputs = {{.name = "bytes", .shape = {5, 7, 3}, .element = bytes},
                  {.name = "half", .shape = {3}, .element = half},
                  {.name = "brain", .shape = {1, 5}, .element = brain}};
  model.targets = {{.name = "bytes to learn", .shape = {3}, .element = bytes},
                   {.name = "half", .shape = {3, 1}, .element = half}};
  const auto first = [](LayerBuilder& graph, std::span<const Value> inputs) {
    const Value w = graph.matrix("w", 113, 9, Distribution::normal(0.1));
    const Value image = graph.scale(graph.reshape(inputs[0], {105}), 1.0 / 255);
    return std::vector{
        graph.tanh(graph.linear(graph.concatenate({image, inputs[1], graph.reshape(inputs[2], {5})}, 1), w))};
  };
  const auto last = [](LayerBuilder& graph, std::span<const Value> inputs) {
    const Value w = graph.matrix("w", 9, 6, Distribution::normal(0.1));
    return std::vector{graph.linear(inputs[0], w)};
  };
  model.blocks = {{.id = 0, .type = "first", .build = first}, {.id = 1, .type = "last", .build = last}};
  model.loss = [](LayerBuilder& graph, std::span<const Value> outputs, std::span<const Value> targets) {
    const Value both = graph.concatenate({graph.scale(targets[0], 1.0 / 255), graph.reshape(targets[1], {3})}, 1);
    const Value apart = graph.subtract(outputs[0], both);
    return graph.mean(graph.multiply(apart, apart), {1});
  };
  model.metrics = {{.name = "sum of targets", .add = [](auto, std::span<const TargetValues> targets, auto sums) {
                      for (const TargetValues& target : targets) {
                        for (const float number : target.numbers) sums[0] += number;
                      }
                    }}};
  Options options = testing::custom_options(std::move(model));
  options.data.train_source = options.data.validation_source = std::make_shared<CallbackSource>(
      20, 1, [halves_as_bits](const SamplePosition& position, const SampleView& sample) {
        write(sample, position.index, halves_as_bits);
        return std::int64_t{1};
      });
  return options;
}

TEST(SampleTypes, AreTheSameNumbersInLessRoom) {
  for (const char* const compute : {"fp32", "bf16", "fp16"}) {
    Options floats = options_of(Element::f32, Element::f32, Element::f32);
    floats.precision.compute = compute;
    const Record expected = testing::custom_record(floats);
    for (const bool bits : {false, true}) {
      Options typed = options_of(Element::u8, Element::f16, Element::bf16, bits);
      typed.precision.compute = compute;
      EXPECT_EQ(testing::custom_record(typed), expected) << compute;
      Trainer trainer(typed), other(floats);
      EXPECT_EQ(trainer.evaluate()->metrics, other.evaluate()->metrics);
      EXPECT_LT(trainer.contract().device_bytes, other.contract().device_bytes);
    }
  }
}

// A model of one tensor of bytes, as images come, whose samples need not be taken apart; and one byte is noticed.
TEST(SampleTypes, BytesAlone) {
  const auto run = [](Element element, float changed) {
    Options options = options_of(element, Element::f16, Element::bf16);
    ModelOptions& model = options.model;
    model.inputs.resize(1);
    model.targets.resize(1);
    model.blocks[0].build = [](LayerBuilder& graph, std::span<const Value> inputs) {
      const Value w = graph.matrix("w", 105, 9, Distribution::normal(0.1));
      return std::vector{graph.tanh(graph.linear(graph.scale(graph.reshape(inputs[0], {105}), 1.0 / 255), w))};
    };
    model.loss = [](LayerBuilder& graph, std::span<const Value> outputs, std::span<const Value> targets) {
      const Value apart = graph.subtract(graph.slice(outputs[0], 1, 0, 3), graph.scale(targets[0], 1.0 / 255));
      return graph.mean(graph.multiply(apart, apart), {1});
    };
    options.data.train_source = std::make_shared<CallbackSource>(20, 1, [=](const auto& position, const auto& sample) {
      std::vector<float> image = numbers_of(position.index, 105, true), target = numbers_of(position.index, 3, true);
      if (position.index == 3) image[50] += changed;
      if (element == Element::f32) {
        sample.set_input(0, std::span<const float>(image));
        sample.set_target(0, std::span<const float>(target));
      } else {
        sample.set_input(0, std::vector<std::uint8_t>(image.begin(), image.end()));
        sample.set_target(0, std::vector<std::uint8_t>(target.begin(), target.end()));
      }
      return std::int64_t{1};
    });
    return testing::custom_record(options);
  };
  EXPECT_EQ(run(Element::u8, 0), run(Element::f32, 0));
  const float changed = numbers_of(3, 105, true)[50] < 128 ? 1 : -1;
  EXPECT_FALSE(run(Element::u8, changed) == run(Element::u8, 0));
  EXPECT_EQ(run(Element::u8, changed), run(Element::f32, changed));
}

// As PyTorch rounds to f16; to bf16 ties go away from zero.
TEST(SampleTypes, FloatsAreRounded) {
  const std::vector<TensorSpec> specs = {{.name = "half", .shape = {3}, .element = Element::f16},
                                         {.name = "brain", .shape = {3}, .element = Element::bf16}};
  std::vector<std::int32_t> words(4);
  const SampleView view{.tokens = words, .targets = {}, .input_tensors = specs};
  const std::vector<float> numbers = {1.00048828125f, -1.00390625f, 0.3333333f};
  view.set_input(0, std::span(numbers));
  view.set_input(1, std::span(numbers));
  std::uint16_t halves[8];
  std::memcpy(halves, words.data(), sizeof halves);
  EXPECT_EQ((std::vector<int>(halves, halves + 3)), (std::vector<int>{0x3c00, 0xbc04, 0x3555}));
  EXPECT_EQ((std::vector<int>(halves + 4, halves + 7)), (std::vector<int>{0x3f80, 0xbf81, 0x3eab}));
}

TEST(SampleTypes, NoWayToRunThemChangesABit) {
  testing::expect_same_bits(
      options_of(Element::u8, Element::f16, Element::bf16),
      [](const Options& options) { return testing::custom_record(options); }, "sample types");
}

TEST(SampleTypes, WhatIsWrittenIsChecked) {
  const auto refusal = [](const std::function<void(const SampleView&)>& write_it) {
    Options options = options_of(Element::u8, Element::f16, Element::bf16);
    options.data.train_source = std::make_shared<CallbackSource>(9, 1, [&](const auto&, const SampleView& sample) {
      write_it(sample);
      return std::int64_t{1};
    });
    return testing::refusal([&] { Trainer(options).step(); });
  };
  const std::vector<std::uint8_t> bytes(105);
  const std::vector<std::uint16_t> infinite(3, 0x7c00);
  const std::vector<float> floats(105), large(3, 65520), few(3);
  EXPECT_EQ(refusal([&](const SampleView& s) { s.set_input(0, std::span(bytes)); }), "(none)");
  const auto expect = [&](const std::function<void(const SampleView&)>& write_it, const std::string& what) {
    const std::string said = refusal(write_it);
    EXPECT_NE(said.find(what), std::string::npos) << said;
  };
  expect([&](const SampleView& s) { s.set_input(0, std::span(floats)); },
         "\"bytes\" of a sample: 105 numbers are written; it has 105 elements of u8");
  expect([&](const SampleView& s) { s.set_input(1, std::span(bytes).first(3)); }, "3 elements of f16");
  expect([&](const SampleView& s) { s.set_input(2, std::span(few)); }, "it has 5 elements of bf16");
  expect([&](const SampleView& s) { s.set_input(1, std::span(infinite)); }, "\"half\", element 0 is not finite");
  expect([&](const SampleView& s) { s.set_target(1, std::span(large)); }, "\"half\", element 0 is not finite");
}

}  // namespace
}  // namespace l2l

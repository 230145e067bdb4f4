// Small checkpoints: stores to save, and what their files hold.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "eps/checkpoint/checkpoint.h"
#include "l2l/errors.h"
#include "tests/eps/toy.h"
#include "tests/support/parameter_state.h"

namespace l2l::eps::testing {

namespace fs = std::filesystem;

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

// Saves what `store` holds now.
inline fs::path save_checkpoint(const fs::path& directory, ParameterStore& store, const SavedRun& state, int keep) {
  return eps::save_checkpoint(directory, store, store.begin_save(), state, keep);
}

// A store with all that it needs.
struct TestRun {
  explicit TestRun(ModelLayout layout, StoreOptions options = toy_options())
      : options(options), store(std::move(layout), options, memory, failure, nullptr) {}

  // Steps [from, to) of a toy run.
  void train(std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t step = from; step < to; ++step) run_step(store, options, step);
  }

  StoreOptions options;
  Failure failure;
  TestMemory memory;
  ParameterStore store;
};

// Two groups, three parameters, padding: files of a few hundred bytes.
inline ModelLayout small_layout() {
  ModelLayout layout;
  layout.groups.push_back(
      {"first",
       1,
       {{"weight", {2, 3}, 0, true, Initial::normal, 0.5f}, {"bias", {3}, 8, false, Initial::ones, 0}},
       12});
  layout.groups.push_back({"second", 2, {{"gain", {1}, 0, false, Initial::normal, 1.0f}}, 4});
  layout.layers.push_back({"layer0", 1, {{0, 0}}, 12});
  layout.layers.push_back({"layer1", 2, {{1, 0}}, 4});
  return layout;
}

// State that differs in every element, some of it awkward: denormal, negative zero, infinity.
inline void fill(ParameterStore& store) {
  float next = 0.1f;
  const auto& groups = store.layout().groups;
  for (std::size_t group = 0; group < groups.size(); ++group) {
    for (std::size_t i = 0; i < groups[group].parameters.size(); ++i) {
      const auto count = static_cast<std::size_t>(groups[group].parameters[i].shape.elements());
      std::vector<float> states[3];
      for (std::vector<float>& state : states) {
        for (std::size_t j = 0; j < count; ++j) state.push_back(next *= 1.37f);
      }
      states[0][0] = -0.0f;
      states[1][0] = 1e-40f;
      states[2].back() = INFINITY;
      write_state(store, static_cast<GroupIndex>(group), i, {states[0], states[1], states[2]});
    }
  }
  const std::vector<std::uint64_t> counts = {7, 3};
  store.restore(9, counts);
}

inline const SavedRun kState{9, 0xfedcba9876543210u, 1234, "[run]\nsteps = 9\n", 0x0123456789abcdefu};

inline std::string bits(const ParameterStore& store) {
  const std::vector<float> values = whole_state(store);
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

inline std::string read_all(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

inline void write_all(const fs::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
}

// Why loading is refused, with the store unchanged; "(loaded)" when it is not.
inline std::string load_refusal(const fs::path& folder, ParameterStore& store) {
  const std::string before = bits(store);
  try {
    load_checkpoint(folder, store);
  } catch (const CorruptFile& error) {
    EXPECT_EQ(bits(store), before);
    return error.what();
  }
  return "(loaded)";
}

inline std::string bad_input(const std::function<void()>& function) {
  try {
    function();
  } catch (const BadInput& error) {
    return error.what();
  }
  return "(no BadInput)";
}

inline std::vector<std::string> entries(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

inline SavedRun at_step(std::uint64_t step) { return {step, 1, step, ""}; }

}  // namespace l2l::eps::testing

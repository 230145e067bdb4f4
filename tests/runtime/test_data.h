// Data files of a test, and the windows that are drawn from them.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "l2l/errors.h"
#include "runtime/data/dataset.h"
#include "tests/support/temporary_folder.h"

namespace l2l::runtime::test {

template <typename Function>
std::string bad_input(Function function) {
  try {
    function();
  } catch (const BadInput& error) {
    return error.what();
  }
  return "(no BadInput)";
}

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

class Data {
 public:
  void write(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  // 0, 1, 2, ..., so that a token is its own index.
  void write_counting(const std::string& name, std::uint16_t count) const {
    std::string bytes;
    for (std::uint32_t i = 0; i < count; ++i) bytes += {static_cast<char>(i & 255), static_cast<char>(i >> 8)};
    write(name, bytes);
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  DataFiles find(std::vector<std::string> names, TokenFormat format = TokenFormat::text) const {
    for (std::string& name : names) name = path(name);
    return find_data(names, format, "data.train");
  }

 private:
  ::l2l::testing::TemporaryFolder folder_;
};

struct Window {
  std::vector<std::int32_t> tokens, targets;
};

inline Window sample(const Dataset& data, std::uint64_t position, std::size_t sequence) {
  Window window{std::vector<std::int32_t>(sequence, -7), std::vector<std::int32_t>(sequence, -7)};
  data.sample(position, {window.tokens, window.targets});
  return window;
}

}  // namespace l2l::runtime::test

// Runs the tests, or with `--speed [THREADS [FILTER]]` measures the kernels.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

#include "core/workers.h"
#include "tests/conformance/ops/speed.h"

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--speed") {
    return l2l::test::run_speed(argc > 2 ? std::atoi(argv[2]) : l2l::available_cores(), argc > 3 ? argv[3] : "");
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

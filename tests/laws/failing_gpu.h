// Law 8 on emulated GPUs: wherever the others are, they do not wait for one that has failed.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <random>
#include <stdexcept>
#include <thread>

#include "l2l/l2l.h"
#include "tests/emulation/runtime.h"

namespace l2l::testing {

// Runs of options_of(attempt), of which a GPU fails at a random moment, end with its error.
inline void expect_ends_with_the_error_of_a_gpu(int attempts, const std::function<Options(int attempt)>& options_of) {
  std::minstd_rand random(7);
  for (int attempt = 0; attempt < attempts; ++attempt) {
    {
      Trainer trainer(options_of(attempt));
      trainer.step();
      std::thread failing([moment = std::chrono::microseconds(random() % 30'000)] {
        std::this_thread::sleep_for(moment);
        emulation::enqueue(nullptr, [] { throw std::runtime_error("a GPU has failed"); });
      });
      EXPECT_THROW(
          {
            while (true) trainer.step();
          },
          DeviceError)
          << attempt;
      failing.join();
    }
    emulation::clear_error();
  }
}

}  // namespace l2l::testing

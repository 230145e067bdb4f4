// Runs of three devices, or so, that exchange slices of their memory, of which one is late or fails.
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "core/fault_point.h"
#include "l2l/errors.h"
#include "tests/laws/outcome.h"
#include "tests/laws/small_run.h"
#include "tests/support/fault_device.h"

namespace l2l::testing {

// Ways to update and to run, each with a path of its own for the gradients of several devices, of whatever ranks.
inline const Ways kModes = {
    {"clipped per layer", [](Options& o) { o.optimizer.clip = "per_layer"; }},
    {"clipped as a whole", [](Options& o) { o.optimizer.clip = "global"; }},
    {"after the backward pass", [](Options& o) { o.optimizer.update = "after_backward"; }},
    {"LAMB", [](Options& o) { o.optimizer.name = "lamb"; }},
    {"SGD", [](Options& o) { o.optimizer.name = "sgd"; }},
    {"int8", [](Options& o) { o.optimizer.moments = "int8", o.precision.compute = "bf16"; }},
    {"in chunks", [](Options& o) { o.transfer.vocabulary_chunk = 100; }},
    {"resident", [](Options& o) { o.device.execution = "resident"; }},
    {"weights that stay", [](Options& o) { o.transfer.resident_layers = 2; }},
    {"some frozen",
     [](Options& o) {
       o.optimizer.train = {"h.1.*", "*.bias"};
     }},
    {"all but one frozen", [](Options& o) { o.optimizer.train = {"h.2.mlp.c_fc.weight"}; }},
};

// Twelve microbatches, which 2, 3, 4 and 6 devices divide.
inline Options options_of_devices(const SmallRun& run, std::int64_t devices, const std::string& family = "gpt2") {
  Options options = run.options(family);
  options.batch = {.micro_batch = 1, .micro_batches = 12};
  options.device.count = devices;
  options.device.threads = 1;
  options.eps.threads = 2;
  return options;
}

// Of three devices, one that `seed` chooses takes longer for everything.
inline Record record_with_a_late_device(const Options& options, int steps, std::uint64_t seed) {
  std::uint64_t opened = 0;
  return record_on(options, steps, [&](std::unique_ptr<device::HostDevice> device) {
    FaultPlan faults;
    faults.seed = 100 * seed + opened;
    if (opened++ == seed % 3) {
      faults.copy_h2d_delay = faults.copy_d2h_delay = faults.launch_delay = std::chrono::microseconds(300);
    }
    return std::make_unique<FaultDevice>(std::move(device), faults);
  });
}

// Of three devices, one fails at a call that is drawn, which ends the run with its error.
inline void expect_that_a_failure_ends_all(const Options& options, std::minstd_rand& random) {
  const int failing = static_cast<int>(random() % 3);
  const auto call = static_cast<std::int64_t>(random() % 90);
  const bool launch = random() % 2 == 0;
  int opened = 0;
  const auto one_fails = [&](std::unique_ptr<device::HostDevice> device) {
    FaultPlan faults;
    faults.seed = random();
    faults.copy_h2d_delay = faults.copy_d2h_delay = faults.launch_delay = std::chrono::microseconds(random() % 3 * 50);
    if (opened++ == failing) (launch ? faults.fail_launch : faults.fail_copy) = call;
    return std::make_unique<FaultDevice>(std::move(device), faults);
  };
  EXPECT_THROW(record_on(options, 3, one_fails), DeviceError)
      << "device " << failing << (launch ? ", launch " : ", copy ") << call;
}

#ifdef L2L_FAULT_POINTS
// Of slow devices that do not wait for their peers (fault point peers.read_early), the records differ.
inline void expect_that_reading_early_is_noticed(const Options& options, int steps, const FaultPlan& slow) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "a data race on purpose";
#endif
  const auto slowed = [&](std::unique_ptr<device::HostDevice> device) {
    return std::make_unique<FaultDevice>(std::move(device), slow);
  };
  const Record honest = record_on(options, steps, slowed);
  arm_fault_point("peers.read_early");
  bool noticed = false;
  for (int attempt = 0; attempt < 5 && !noticed; ++attempt) {
    try {
      noticed = record_on(options, steps, slowed) != honest;
    } catch (const Error&) {  // numbers that are none
      noticed = true;
    }
  }
  arm_fault_point("");
  EXPECT_TRUE(noticed);
}
#endif

}  // namespace l2l::testing

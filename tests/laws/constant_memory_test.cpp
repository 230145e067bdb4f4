// Law 1: with the stash on the host, device memory does not depend on depth; host memory is affine in it.
#include <gtest/gtest.h>

#include <array>
#include <map>

#include "tests/laws/small_run.h"
#include "tests/support/fault_device.h"

namespace l2l {
namespace {

using testing::SmallRun;

constexpr std::int64_t kDepths[] = {2, 24, 96, 384, 2000};

Options options_of(const SmallRun& run, std::int64_t layers, const std::string& stash,
                   const std::string& family = "gpt2") {
  Options options = run.options(family);
  options.model.layers = layers;
  options.model.hidden = options.model.sequence = 8;
  options.model.heads = family == "llama" ? 4 : 1;
  options.batch = {.micro_batch = 1, .micro_batches = 2};
  options.transfer.stash = stash;
  return options;
}

// Bytes of a run at each depth: planned, and the peak after a step.
struct Peaks {
  std::map<std::int64_t, std::uint64_t> planned, measured, pinned, host;
};

// Without the one line of the contract that is measured instead of computed.
std::uint64_t accounted_host_bytes(const MemoryContract& contract) {
  std::uint64_t bytes = 0;
  for (const ContractLine& line : contract.host) {
    if (line.what.rfind("process", 0) != 0) bytes += line.bytes;
  }
  return bytes;
}

template <typename Depths>
Peaks measure(const std::string& stash, const std::string& precision, const Depths& depths,
              const std::string& family = "gpt2") {
  const SmallRun run;
  Peaks peaks;
  for (const std::int64_t layers : depths) {
    Options options = options_of(run, layers, stash, family);
    options.precision.compute = precision;
    options.eps.gradient_buffers = 3;  // beside a GPU the default grows with the state, in whole buffers
    Trainer trainer(options);
    trainer.step();
    peaks.planned[layers] = trainer.contract().device_bytes;
    peaks.measured[layers] = trainer.device_peak_bytes();
    peaks.pinned[layers] = trainer.contract().pinned_bytes;
    peaks.host[layers] = accounted_host_bytes(trainer.contract());
  }
  return peaks;
}

bool constant(const std::map<std::int64_t, std::uint64_t>& bytes) {
  for (const auto& [layers, value] : bytes) {
    if (value != bytes.begin()->second) return false;
  }
  return true;
}

// Whether every point lies on the line through the first two.
bool affine(const std::map<std::int64_t, std::uint64_t>& bytes) {
  const auto first = bytes.begin(), second = std::next(first);
  const auto run = static_cast<std::uint64_t>(second->first - first->first);
  for (const auto& [layers, value] : bytes) {
    if ((value - first->second) * run !=
        (second->second - first->second) * static_cast<std::uint64_t>(layers - first->first)) {
      return false;
    }
  }
  return true;
}

TEST(ConstantMemory, DevicePeakIsTheSameAtAnyDepthWithTheStashOnTheHost) {
  const Peaks peaks = measure("host", "fp32", kDepths);
  EXPECT_EQ(peaks.measured, peaks.planned);
  EXPECT_TRUE(constant(peaks.measured)) << peaks.measured.begin()->second << " ... " << peaks.measured.rbegin()->second;
  EXPECT_TRUE(affine(peaks.pinned));
  EXPECT_TRUE(affine(peaks.host));
  EXPECT_FALSE(constant(peaks.host));
}

TEST(ConstantMemory, HoldsInFp16) {
  const Peaks peaks = measure("host", "fp16", std::array<std::int64_t, 3>{2, 24, 384});
  EXPECT_EQ(peaks.measured, peaks.planned);
  EXPECT_TRUE(constant(peaks.measured)) << peaks.measured.begin()->second << " ... " << peaks.measured.rbegin()->second;
  EXPECT_TRUE(affine(peaks.pinned));
  EXPECT_FALSE(constant(peaks.pinned));
}

TEST(ConstantMemory, HoldsForBertAndLlama) {
  for (const char* const family : {"bert", "llama"}) {
    const Peaks peaks = measure("host", "fp32", std::array<std::int64_t, 3>{2, 24, 384}, family);
    EXPECT_EQ(peaks.measured, peaks.planned) << family;
    EXPECT_TRUE(constant(peaks.measured)) << family;
    EXPECT_TRUE(affine(peaks.pinned)) << family;
    EXPECT_FALSE(constant(peaks.pinned)) << family;
  }
}

TEST(ConstantMemory, DevicePeakIsAffineWithTheStashOnTheDevice) {
  const Peaks peaks = measure("device", "fp32", kDepths);
  EXPECT_EQ(peaks.measured, peaks.planned);
  EXPECT_TRUE(affine(peaks.measured));
  EXPECT_FALSE(constant(peaks.measured));
}

TEST(ConstantMemory, DevicePeakIsAffineInMicrobatches) {
  const SmallRun run;
  std::map<std::int64_t, std::uint64_t> peaks;
  // On a GPU, whose products have workspaces, so many that the same phase needs most memory at each.
  const std::int64_t times = testing::test_device() == "host" ? 1 : 16;
  for (const std::int64_t microbatches : {times, 2 * times, 3 * times, 8 * times}) {
    Options options = options_of(run, 4, "host");
    // Whole multiples of the arena's alignment, so that rounding hides nothing.
    options.model.sequence = 64;
    options.batch.micro_batches = microbatches;
    Trainer trainer(options);
    trainer.step();
    peaks[microbatches] = trainer.device_peak_bytes();
  }
  // One loss of 8 bytes per microbatch has a line of 256 bytes of its own.
  EXPECT_TRUE(affine(peaks));
}

// Negative control: allocates a buffer at the first launch of each layer and never frees it.
class LeakyDevice final : public device::ForwardingDevice {
 public:
  explicit LeakyDevice(std::unique_ptr<device::HostDevice> device) : ForwardingDevice(std::move(device)) {}
  void launch(device::Stream& stream, const device::Executable& executable, const device::Bindings& bindings,
              const device::LaunchParameters& parameters) override {
    if (!leaked_.count(parameters.layer)) leaked_[parameters.layer] = allocate(64, "leak");
    ForwardingDevice::launch(stream, executable, bindings, parameters);
  }

 private:
  std::map<std::uint32_t, std::unique_ptr<device::Buffer>> leaked_;
};

TEST(ConstantMemoryNegativeControl, OneBufferLeakedPerLayerIsCaught) {
  const SmallRun run;
  std::map<std::int64_t, std::uint64_t> peaks;
  for (const std::int64_t layers : {2, 24}) {
    device::Device* seen = nullptr;
    testing::record_on(
        options_of(run, layers, "host"), 1,
        [&](std::unique_ptr<device::HostDevice> device) {
          auto leaky = std::make_unique<LeakyDevice>(std::move(device));
          seen = leaky.get();
          return leaky;
        },
        [&] { peaks[layers] = seen->peak_bytes(); });
  }
  EXPECT_FALSE(constant(peaks));
}

}  // namespace
}  // namespace l2l

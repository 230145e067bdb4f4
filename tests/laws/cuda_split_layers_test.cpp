// Layers that are split over GPUs, which are emulated and exchange by the stand-in for NCCL (tests/emulation). What
// split_layers_test.cpp asks of devices of any kind runs on these, too.
#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>

#include "core/fault_point.h"
#include "device/forwarding_device.h"
#include "device/open.h"
#include "tests/emulation/runtime.h"
#include "tests/laws/failing_gpu.h"
#include "tests/laws/small_run.h"
#include "tests/support/refusal.h"

namespace l2l::split_gpus_law {
namespace {

using testing::Record;
using testing::SmallRun;

constexpr int kSteps = 2;

class SplitGpus : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("L2L_CUDA_MODULE", L2L_EMULATED_MODULE, 1); }
  void SetUp() override { emulation::set_machine({.devices = 4}); }
  void TearDown() override {
    emulation::set_machine({});
    emulation::set_order(0);
  }

  Options options(std::int64_t tensor, const char* family = "gpt2", const char* kind = "cuda") const {
    Options options = run_.options(family);
    options.model.hidden = 32;
    options.model.heads = 4;
    if (options.model.kv_heads > 0) options.model.kv_heads = 4;
    options.model.intermediate = 64;
    options.model.sequence = 12;
    options.batch = {.micro_batch = 2, .micro_batches = 2};
    options.transfer.stash = "host";
    options.transfer.vocabulary_chunk = 300;
    options.device.kind = kind;
    options.device.threads = 1;
    options.device.count = options.device.tensor = tensor;
    return options;
  }
  static Record record(const Options& options) { return testing::record_of(options, kSteps); }

  const SmallRun run_;
};

// The same masks, and sums in the same order.
TEST_F(SplitGpus, TrainLikeSplitHosts) {
  for (const char* const family : {"gpt2", "bert", "llama_tied"}) {
    for (const std::int64_t tensor : {2, 4}) {
      const Record gpus = record(options(tensor, family)), hosts = record(options(tensor, family, "host"));
      for (std::size_t i = 0; i < hosts.losses.size(); ++i) {
        EXPECT_NEAR(gpus.losses[i], hosts.losses[i], 1e-5 * hosts.losses[i]) << family << ", " << tensor;
        EXPECT_NEAR(gpus.norms[i], hosts.norms[i], 1e-4 * hosts.norms[i]) << family << ", " << tensor;
      }
    }
  }
}

// In whatever order threads, warps and streams run; with copies of rows through staging buffers.
TEST_F(SplitGpus, HaveTheSameBitsHoweverTheRunIsExecuted) {
  for (const char* const compute : {"fp32", "bf16"}) {
    Options plain = options(2);
    plain.precision.compute = compute;
    const Record first = record(plain);
    const testing::Ways ways = {{"resident", [](Options& o) { o.device.execution = "resident"; }},
                                {"stash on the device", [](Options& o) { o.transfer.stash = "device"; }},
                                {"weights that stay", [](Options& o) { o.transfer.resident_layers = 1; }},
                                {"values kept", [](Options& o) { o.recompute.policy = "none"; }},
                                {"all copies staged", [](Options& o) { o.device.pinned_memory = 1; }},
                                {"without graphs", [](Options& o) { o.device.graphs = false; }}};
    for (const auto& [name, change] : ways) {
      Options other = plain;
      change(other);
      emulation::set_order(name[0]);
      EXPECT_EQ(record(other), first) << compute << ", " << name;
    }
    emulation::set_machine({.devices = 4, .delay = std::chrono::microseconds(200)});
    EXPECT_EQ(record(plain), first) << compute;
    emulation::set_machine({.devices = 4});
  }
}

// Programs that exchange are enqueued kernel by kernel, and all of split layers do: those that round gradients sum what
// several devices have.
TEST_F(SplitGpus, ExchangesAreInNoGraph) {
  const auto graphs = [this](std::int64_t tensor, const char* compute) {
    Options its = options(tensor);
    its.precision.compute = compute;
    const int before = emulation::graphs_made();
    testing::record_of(its, 3);  // the stand-in for NCCL refuses to be captured
    return emulation::graphs_made() - before;
  };
  for (const char* const compute : {"fp32", "bf16"}) {
    EXPECT_GT(graphs(1, compute), 0) << compute;
    EXPECT_EQ(graphs(2, compute), 0) << compute;
  }
}

// The same as of one device: whatever is taken later is taken before a run is planned.
TEST_F(SplitGpus, LoadTheirKernelsBeforeARunIsPlannedAndTakeWhatTheContractStates) {
  emulation::unload_kernels();
  Trainer trainer(options(2));
  const std::size_t planned = emulation::kernels_loaded();
  EXPECT_GT(planned, 10u);
  StepReport report;
  for (int i = 0; i < kSteps; ++i) report = trainer.step();
  EXPECT_EQ(emulation::kernels_loaded(), planned);
  EXPECT_EQ(report.device_peak_bytes, trainer.contract().device_bytes);
  arm_fault_point("plan.load_no_code");
  emulation::unload_kernels();
  Trainer late(options(2));
  const std::size_t early = emulation::kernels_loaded();
  late.step();
  arm_fault_point("");
  EXPECT_LT(early, emulation::kernels_loaded());
}

// GPUs that are a group, each as `wrap` makes it of the honest one.
struct Group {
  runtime::Devices devices;
  runtime::PeerGroups peers;

  template <typename Wrap>
  Group(int count, Bytes pinned_memory, const Wrap& wrap) {
    std::vector<device::Device*> members;
    std::vector<std::unique_ptr<device::Device>> gpus;
    for (int i = 0; i < count; ++i) {
      gpus.push_back(device::open_device({.kind = "cuda", .index = i, .pinned_memory = pinned_memory}));
      members.push_back(gpus.back().get());
    }
    std::string reason;
    peers.tensor.push_back(device::make_tensor_group(members, reason));
    for (int i = 0; i < count; ++i) {
      members[static_cast<std::size_t>(i)]->join({peers.tensor[0], i});
      devices.push_back(wrap(std::move(gpus[static_cast<std::size_t>(i)]), i));
    }
  }
};

class FullGpu : public device::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  std::unique_ptr<device::Buffer> allocate(Bytes, std::string_view purpose) override {
    throw OutOfMemory(std::string(purpose));
  }
};

// Where one GPU has no room for a first run, the others do not wait for it.
TEST_F(SplitGpus, LoadNothingWhereOneHasNoRoom) {
  const Group group(2, 0, [](std::unique_ptr<device::Device> gpu, int i) -> std::shared_ptr<device::Device> {
    if (i == 0) return gpu;
    return std::make_shared<FullGpu>(std::move(gpu));
  });
  runtime::RunParts parts = runtime::make_parts(runtime::resolve(options(2)), group.devices, group.peers);
  EXPECT_NO_THROW(runtime::load_programs(parts));
}

TEST_F(SplitGpus, AreRefusedWithoutNccl) {
  emulation::set_machine({.devices = 2, .nccl = false});
  const std::string said = testing::refusal([&] { Trainer trainer(options(2)); });
  EXPECT_EQ(said.find("device.tensor = 2: GPUs exchange rows by NCCL, and NCCL refuses: ncclCommInitRankConfig"), 0u)
      << said;
  EXPECT_NE(said.find("no communicators on this machine"), std::string::npos) << said;
  EXPECT_NE(said.find("set device.tensor = 1"), std::string::npos) << said;
}

// A GPU of which the driver refuses one call.
class RefusingGpu : public device::ForwardingDevice {
 public:
  RefusingGpu(std::unique_ptr<device::Device> gpu, int refused)
      : ForwardingDevice(std::move(gpu)),
        refused_(refused),
        memory_(inner().allocate(64, "test")),
        host_(inner().allocate_pinned(64, "test")) {}

  void launch(device::Stream& stream, const device::Executable& executable, const device::Bindings& bindings,
              const device::LaunchParameters& parameters) override {
    if (calls_++ == refused_) copy_beyond(stream);
    inner().launch(stream, executable, bindings, parameters);
  }
  void copy_rows(device::Stream& stream, const device::RowCopy& rows) override {
    if (calls_++ == refused_) copy_beyond(stream);
    inner().copy_rows(stream, rows);
  }

 private:
  void copy_beyond(device::Stream& stream) {
    constexpr Bytes kBeyond = 1 << 20;
    inner().copy(stream, {memory_->view().data, kBeyond}, {host_->view().data, kBeyond});
  }

  const int refused_;
  std::atomic<int> calls_{0};
  const std::unique_ptr<device::Buffer> memory_, host_;
};

// Law 8: the others, wherever they are, do not wait for a GPU that has failed, and say why it did.
TEST_F(SplitGpus, AFailureOfOneEndsAllWithItsCause) {
  for (int refused = 0; refused < 120; refused += 3) {
    for (const int which : {0, 1}) {
      const auto wrap = [&](std::unique_ptr<device::Device> gpu, int i) {
        return std::make_shared<RefusingGpu>(std::move(gpu), i == which ? refused : -1);
      };
      const Group group(2, static_cast<Bytes>(refused % 2), wrap);
      runtime::RunParts parts = runtime::make_parts(runtime::resolve(options(2)), group.devices, group.peers);
      runtime::Decisions decisions = runtime::fixed_decisions(parts);
      const runtime::RunPlan plan(std::move(parts), std::move(decisions));
      const std::string said = testing::refusal([&] { testing::record_of(plan, 3); });
      EXPECT_NE(said.find("cudaErrorInvalidValue"), std::string::npos) << refused << ", GPU " << which << ": " << said;
    }
  }
}

// The same of failures that show when the GPU has come to them.
TEST_F(SplitGpus, EndWithTheErrorOfOneOfThem) {
  testing::expect_ends_with_the_error_of_a_gpu(24, [&](int attempt) {
    Options options = this->options(attempt % 2 == 0 ? 2 : 4);
    options.device.pinned_memory = attempt % 4 == 0 ? 1 : 0;
    return options;
  });
}

#ifdef L2L_FAULT_POINTS
// Negative control: what the GPUs have of replicated parameters' gradients is not summed.
TEST_F(SplitGpus, GradientsThatAreNotSummedAreNoticed) {
  const Record honest = record(options(2));
  arm_fault_point("tensor.no_sum");
  const Record broken = record(options(2));
  arm_fault_point("");
  EXPECT_NE(broken, honest);
}
#endif

}  // namespace
}  // namespace l2l::split_gpus_law

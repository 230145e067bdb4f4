// Law 6 and law 2 where kernels are chosen by time, on an emulated GPU whose clock the tests set: a resumed run, every
// device, and the next run of a machine use what was chosen first.
#include <gtest/gtest.h>

#include "core/files.h"
#include "device/forwarding_device.h"
#include "device/open.h"
#include "eps/checkpoint/manifest.h"
#include "runtime/plan/kernel_choices.h"
#include "tests/emulation/runtime.h"
#include "tests/laws/small_run.h"
#include "tests/support/refusal.h"

namespace l2l {
namespace {

namespace fs = std::filesystem;
using testing::SmallRun;

class ChosenKernels : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("L2L_CUDA_MODULE", L2L_EMULATED_MODULE, 1); }
  ChosenKernels() : calibration_before_(std::getenv("L2L_CALIBRATION") ? std::getenv("L2L_CALIBRATION") : "") {
    use_calibration("first");
    set_log_sink([this](LogLevel level, std::string_view message) {
      if (level != LogLevel::info) warned_ += std::string(message) + "\n";
    });
  }
  ~ChosenKernels() override {
    set_log_sink({});
    emulation::set_machine({});
    setenv("L2L_CALIBRATION", calibration_before_.c_str(), 1);
  }

  fs::path calibration(const char* name) const { return run_.folder() / (std::string(name) + ".json"); }
  void use_calibration(const char* name) const { setenv("L2L_CALIBRATION", calibration(name).c_str(), 1); }
  static std::string text_of(const fs::path& file) { return InputFile(file).text(); }

  Options options() const {
    Options options = run_.options();
    options.optimizer.max_norm = OptimizerOptions().max_norm;  // without clipping another one is warned of
    options.device.kind = "cuda";
    return options;
  }
  static std::uint64_t hash_after(Trainer& trainer, int steps) { return testing::record_of(trainer, steps).hash; }
  // Of a new run where the algorithm of this place is the fastest.
  std::uint64_t hash_where(int fastest, int steps = 4) const {
    emulation::set_machine({.fastest_product = fastest});
    Trainer trainer(options());
    return hash_after(trainer, steps);
  }
  // A run of two steps with the kernels of the first calibration, and a second calibration with others. Returns the
  // hash after four steps.
  std::uint64_t begin() {
    const std::uint64_t whole = hash_where(1);
    Trainer trainer(options());
    hash_after(trainer, 2);
    folder_ = trainer.save();
    use_calibration("second");
    hash_where(0, 1);
    return whole;
  }
  std::uint64_t go_on(const Options& options) const {
    Trainer trainer(options);
    trainer.resume(folder_);
    EXPECT_EQ(trainer.completed_steps(), 2);
    const std::uint64_t hash = hash_after(trainer, 2);
    EXPECT_EQ(trainer.device_peak_bytes(), trainer.contract().device_bytes);
    return hash;
  }
  void change_kernels(const std::function<void(KernelChoices&)>& change) const {
    eps::Manifest manifest = eps::read_manifest(folder_);
    change(manifest.state.kernels);
    std::ofstream(folder_ / eps::kManifestName) << eps::to_text(manifest);
  }

  const SmallRun run_;
  const std::string calibration_before_;
  fs::path folder_;  // of the checkpoint
  std::string warned_;
};

TEST_F(ChosenKernels, TheNextRunHasTheBitsOfTheOneThatTimed) {
  const std::uint64_t first = hash_where(1);
  const std::string kept = text_of(calibration("first"));
  EXPECT_NE(kept.find("emulated GPU (sm_90, 4 SMs), cuBLASLt 13.0.0"), std::string::npos) << kept;
  EXPECT_EQ(hash_where(0), first);
  EXPECT_EQ(text_of(calibration("first")), kept);
  use_calibration("second");  // which has none
  EXPECT_NE(hash_where(0), first);
  EXPECT_EQ(warned_, "");
}

TEST_F(ChosenKernels, AResumedRunTakesThoseOfItsCheckpoint) {
  const std::uint64_t whole = begin();
  EXPECT_EQ(go_on(options()), whole);
  EXPECT_EQ(go_on(options_to_resume(options(), folder_)), whole);
  EXPECT_EQ(warned_, "");
  const std::string kept = text_of(calibration("second"));
  EXPECT_NE(hash_where(1), whole);  // which runs by what the machine has kept, as before
  EXPECT_EQ(text_of(calibration("second")), kept);
}

TEST_F(ChosenKernels, ACheckpointOfEarlierVersionsResumesWithOtherBits) {
  const std::uint64_t whole = begin();
  change_kernels([](KernelChoices& kernels) { kernels.clear(); });
  EXPECT_NE(go_on(options()), whole);
  EXPECT_NE(go_on(options_to_resume(options(), folder_)), whole);
  EXPECT_EQ(warned_, "");
}

TEST_F(ChosenKernels, ACheckpointKeepsThoseOfTheRunThatItGoesOnWith) {
  begin();
  const KernelChoices kernels = eps::read_manifest(folder_).state.kernels;
  ASSERT_EQ(kernels.size(), 1u);
  ASSERT_GT(kernels.begin()->second.size(), 5u);
  Trainer trainer(options());
  trainer.resume(folder_);
  trainer.step();
  EXPECT_EQ(eps::read_manifest(trainer.save()).state.kernels, kernels);
}

TEST_F(ChosenKernels, ProgramsThatRunAlreadyKeepTheirsWithAWarning) {
  const std::uint64_t whole = begin();
  Trainer trainer(options());
  trainer.prepare();
  trainer.resume(folder_);
  EXPECT_NE(hash_after(trainer, 2), whole);
  EXPECT_NE(warned_.find("make the Trainer from options_to_resume(), or resume() before prepare()"), std::string::npos)
      << warned_;
}

TEST_F(ChosenKernels, ThoseOfAnotherGpuAreSetAsideWithAWarning) {
  begin();
  change_kernels([](KernelChoices& kernels) {
    KernelChoices::node_type node = kernels.extract(kernels.begin());
    node.key() = "another GPU";
    kernels.insert(std::move(node));
  });
  go_on(options());
  const std::string said =
      (folder_ / eps::kManifestName).string() +
      ": its kernel_choices are for another GPU, and this is emulated GPU (sm_90, 4 SMs), cuBLASLt 13.0.0";
  EXPECT_EQ(warned_.substr(0, said.size()), said);
  warned_.clear();
  go_on(options_to_resume(options(), folder_));
  EXPECT_EQ(warned_.substr(0, said.size()), said);
  EXPECT_EQ(warned_.find(said, 1), std::string::npos);  // once
}

TEST_F(ChosenKernels, DamagedOnesOfACheckpointAreRefused) {
  begin();
  change_kernels([](KernelChoices& kernels) { kernels.begin()->second.begin()->second.pop_back(); });
  const std::string place = (folder_ / eps::kManifestName).string() + ": kernel_choices: \"";
  for (const Options& each : {options(), options_to_resume(options(), folder_)}) {
    const std::string said = testing::refusal([&] { go_on(each); });
    EXPECT_EQ(said.substr(0, place.size()), place);
    EXPECT_NE(said.find("is not 128 hexadecimal digits"), std::string::npos) << said;
  }
}

TEST_F(ChosenKernels, DamagedOnesOfACalibrationAreDroppedWithAWarning) {
  const std::uint64_t first = hash_where(0);
  std::string kept = text_of(calibration("first"));
  const std::size_t digits = kept.find("00000000");
  ASSERT_NE(digits, std::string::npos);
  std::ofstream(calibration("first")) << kept.replace(digits, 1, "x");
  EXPECT_NE(hash_where(1), first);  // since they are timed again
  const std::string said = "calibration " + calibration("first").string() + ", kernel_choices: \"";
  EXPECT_EQ(warned_.substr(0, said.size()), said);
  warned_.clear();
  hash_where(0);
  EXPECT_EQ(warned_, "");
}

TEST_F(ChosenKernels, WithoutAnAlgorithmOfTheLibraryProductsAreOurs) {
  const auto trained = [&](bool library, const char* compute, const char* execution) {
    use_calibration(library ? "first" : "second");
    emulation::set_machine({.products = library});
    Options options = this->options();
    options.precision.compute = compute;
    options.device.execution = execution;
    Trainer trainer(options);
    EXPECT_EQ(is_there(calibration(library ? "first" : "second")), library);  // what is not chosen is not kept
    return testing::record_of(trainer, 2);
  };
  for (const char* const compute : {"fp32", "bf16"}) {
    const testing::Record library = trained(true, compute, "relay"), ours = trained(false, compute, "relay");
    EXPECT_EQ(trained(false, compute, "resident"), ours);
    for (std::size_t i = 0; i < ours.losses.size(); ++i) {
      EXPECT_NEAR(ours.losses[i], library.losses[i], (compute[0] == 'f' ? 1e-5 : 1e-3) * library.losses[i]) << compute;
    }
  }
}

// The clock of each device that compiles has another algorithm as the fastest. `takes`: none of another device's.
class DeviceOfItsOwn final : public device::ForwardingDevice {
 public:
  DeviceOfItsOwn(int index, bool takes)
      : ForwardingDevice(device::open_device({.kind = "cuda", .index = index})), index_(index), takes_(takes) {}
  std::unique_ptr<device::Executable> compile(const compiler::Graph& graph) override {
    emulation::set_machine({.devices = 4, .fastest_product = index_ % 3});
    return ForwardingDevice::compile(graph);
  }
  Device& gpu() { return inner(); }
  void take_kernel_choices(const KernelChoices& choices) override {
    if (takes_) ForwardingDevice::take_kernel_choices(choices);
  }

 private:
  const int index_;
  const bool takes_;
};

TEST_F(ChosenKernels, TheSecondDeviceTakesThoseOfTheFirst) {
  emulation::set_machine({.devices = 2});
  Options two = options();
  two.device.count = 2;
  two.batch.micro_batches = 4;
  for (const bool takes : {true, false}) {
    const runtime::Devices devices = {std::make_shared<DeviceOfItsOwn>(0, takes),
                                      std::make_shared<DeviceOfItsOwn>(1, takes)};
    const runtime::RunPlan plan = runtime::plan_run(two, devices);
    EXPECT_EQ(devices[0]->kernel_choices() == devices[1]->kernel_choices(), takes);
  }
}

// The last GPU of a group has fewer tokens of the tables, and so products that the first one has not.
TEST_F(ChosenKernels, TheLastOfAllGroupsTakeThoseOfTheFirstThatHasThem) {
  emulation::set_machine({.devices = 4});
  Options split = options();
  split.model.hidden = 32, split.model.heads = 4, split.model.sequence = 12;
  split.transfer.vocabulary_chunk = 300;
  split.batch.micro_batches = 4;
  split.device.count = 4, split.device.tensor = 2;
  for (const bool takes : {true, false}) {
    runtime::Devices devices;
    runtime::PeerGroups peers;
    for (int first = 0; first < 4; first += 2) {
      std::vector<device::Device*> members;
      for (const int i : {first, first + 1}) {
        const auto device = std::make_shared<DeviceOfItsOwn>(i, takes);
        members.push_back(&device->gpu());
        devices.push_back(device);
      }
      std::string reason;
      peers.tensor.push_back(device::make_tensor_group(members, reason));
      for (const int i : {0, 1}) members[static_cast<std::size_t>(i)]->join({peers.tensor.back(), i});
    }
    runtime::RunParts parts = runtime::make_parts(runtime::resolve(split), devices, peers);
    runtime::Decisions decisions = runtime::fixed_decisions(parts);
    const runtime::RunPlan plan(std::move(parts), std::move(decisions));
    const auto first = devices[1]->kernel_choices(), second = devices[3]->kernel_choices();
    int differing = 0;
    for (const auto& [product, algorithm] : first.begin()->second) {
      differing += second.begin()->second.at(product) != algorithm ? 1 : 0;
    }
    EXPECT_EQ(differing == 0, takes) << differing;
  }
}

}  // namespace
}  // namespace l2l

#include "runtime/tuning/kept_kernels.h"

#include "core/log.h"
#include "eps/checkpoint/manifest.h"
#include "l2l/errors.h"
#include "runtime/plan/kernel_choices.h"

namespace l2l::runtime {
namespace {

void recall_from(Calibration& calibration, device::Device& device) {
  try {
    device.take_kernel_choices(calibration.kernel_choices());
  } catch (const BadInput& error) {
    log(LogLevel::warning, "calibration " + calibration.file().string() + ", kernel_choices: " + error.what() +
                               "; what it has for this device is dropped, and chosen anew");
    for (const auto& [name, kernels] : device.kernel_choices()) calibration.set_kernel_choices({{name, {}}});
  }
}

}  // namespace

void recall_kernels(const Devices& devices, const std::filesystem::path& checkpoint,
                    const std::filesystem::path& calibration) {
  if (kernel_choices(devices).empty()) return;
  Calibration kept(calibration);
  for (const auto& device : devices) recall_from(kept, *device);
  kept.save();
  if (checkpoint.empty()) return;
  const KernelChoices choices = eps::read_manifest(checkpoint).state.kernels;
  warn_of_other_kernels(devices, choices, checkpoint);
  taking_from(checkpoint, [&] {
    for (const auto& device : devices) device->take_kernel_choices(choices);
  });
}

void keep_kernels(const Devices& devices, const std::filesystem::path& checkpoint,
                  const std::filesystem::path& calibration) {
  const KernelChoices used = kernel_choices(devices);
  if (used.empty()) return;
  Calibration kept(calibration);
  KernelChoices all;
  for (const auto& [device, kernels] : used) {
    const auto known = kept.kernel_choices().find(device);
    if (known != kept.kernel_choices().end()) all.insert(*known);
  }
  kept.set_kernel_choices(checkpoint.empty() ? merged(used, all) : merged(all, used));
  kept.save();
}

void taking_from(const std::filesystem::path& folder, const std::function<void()>& take) {
  try {
    take();
  } catch (const BadInput& error) {
    throw CorruptFile((folder / eps::kManifestName).string(), "kernel_choices", error.what());
  }
}

void warn_of_other_kernels(const Devices& devices, const KernelChoices& choices, const std::filesystem::path& folder) {
  const KernelChoices here = kernel_choices(devices);
  if (choices.empty() || here.empty()) return;
  for (const auto& [device, kernels] : here) {
    if (choices.contains(device)) return;
  }
  log(LogLevel::warning, (folder / eps::kManifestName).string() + ": its kernel_choices are for " +
                             choices.begin()->first + ", and this is " + here.begin()->first +
                             ": kernels are chosen anew, so the last bits differ from those of the run that wrote it");
}

}  // namespace l2l::runtime

// Kernels that were chosen by time, from one run to the next: in the calibration of the machine, and in checkpoints.
#pragma once

#include <filesystem>
#include <functional>

#include "runtime/plan/run_parts.h"
#include "runtime/tuning/calibration.h"

namespace l2l::runtime {

// Hands the devices, before they compile anything, what the calibration has for them and then, where `checkpoint` is
// not empty, what that folder's manifest has. What a calibration has of a device that cannot read it is dropped, with a
// warning. Throws CorruptFile naming the manifest.
void recall_kernels(const Devices& devices, const std::filesystem::path& checkpoint,
                    const std::filesystem::path& calibration = calibration_file());

// Keeps what the devices have chosen in the calibration. `checkpoint`: what recall_kernels() was given; where there is
// one, what the calibration has had stays.
void keep_kernels(const Devices& devices, const std::filesystem::path& checkpoint,
                  const std::filesystem::path& calibration = calibration_file());

// Warns where `choices`, of a checkpoint's `folder`, are for none of the devices, if these choose at all.
void warn_of_other_kernels(const Devices& devices, const KernelChoices& choices, const std::filesystem::path& folder);

// Runs `take`, which hands devices the choices of the manifest in `folder`. Throws CorruptFile that names it where they
// cannot be read.
void taking_from(const std::filesystem::path& folder, const std::function<void()>& take);

}  // namespace l2l::runtime

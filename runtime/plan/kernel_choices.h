// Kernels that devices have chosen by time, as one table for all devices and ranks of a run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/kernel_choices.h"
#include "device/device.h"

namespace l2l::runtime {

// Of all programs that the devices have compiled; of several devices that are alike, the first's. Empty where none of
// them chooses by time.
KernelChoices kernel_choices(const std::vector<std::shared_ptr<device::Device>>& devices);

// Before `device`, one of `devices`, compiles: it takes what those before it have chosen.
void take_kernels_of_earlier(device::Device& device, const std::vector<std::shared_ptr<device::Device>>& devices);

// `first`, and what `second` alone has.
KernelChoices merged(KernelChoices first, const KernelChoices& second);

// For other ranks. Throws Error for a text of another kind.
std::string to_text(const KernelChoices& choices);
KernelChoices parse_kernel_choices(const std::string& text);

}  // namespace l2l::runtime

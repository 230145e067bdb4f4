#include "runtime/plan/kernel_choices.h"

#include <algorithm>

#include "base/json.h"
#include "l2l/errors.h"

namespace l2l::runtime {

KernelChoices kernel_choices(const std::vector<std::shared_ptr<device::Device>>& devices) {
  KernelChoices choices;
  for (const auto& device : devices) choices = merged(std::move(choices), device->kernel_choices());
  return choices;
}

void take_kernels_of_earlier(device::Device& device, const std::vector<std::shared_ptr<device::Device>>& devices) {
  const auto own = std::ranges::find_if(devices, [&](const auto& each) { return each.get() == &device; });
  if (own == devices.begin()) return;
  device.take_kernel_choices(kernel_choices({devices.begin(), own}));
}

KernelChoices merged(KernelChoices first, const KernelChoices& second) {
  for (const auto& [device, kernels] : second) first[device].insert(kernels.begin(), kernels.end());
  return first;
}

std::string to_text(const KernelChoices& choices) { return json_text(nlohmann::json(choices)); }

KernelChoices parse_kernel_choices(const std::string& text) {
  try {
    return parse_json(text).get<KernelChoices>();
  } catch (const nlohmann::json::exception&) {
    throw Error("choices of kernels are no object of objects of texts");
  }
}

}  // namespace l2l::runtime

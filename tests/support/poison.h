// Memory that shows who reads it too early or too late.
#pragma once

#include <memory>

#include "device/device.h"

namespace l2l::testing {

// Every byte of poisoned memory: a NaN in every floating-point type, -1 as an integer.
inline constexpr std::byte kPoison{0xFF};

// `buffer` filled with poison now and again before it is freed. Host memory only.
std::unique_ptr<device::Buffer> poisoned(std::unique_ptr<device::Buffer> buffer);

}  // namespace l2l::testing

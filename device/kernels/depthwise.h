// Windows whose weights are each channel's own, on the host: depthwise and its gradient.
#pragma once

#include "device/kernels/windows.h"

namespace l2l::device::kernels {

inline constexpr std::int64_t kDepthwiseChannels = 64;  // at a time

// w [channels, elements of the window] by element, in fp32: [elements, channels].
template <typename T>
void weights_by_element(const T* w, const Windows& windows, float* weights) {
  const std::int64_t elements = windows.elements(), channels = windows.channels;
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    for (std::int64_t i = 0; i < elements; ++i) weights[i * channels + channel] = widen(w[channel * elements + i]);
  }
}

}  // namespace l2l::device::kernels

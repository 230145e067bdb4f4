// What kernels' launches ask of the stand-in for the CUDA runtime, and the switches of tests.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

#include "tests/emulation/engine.h"

namespace l2l::emulation {

// Checks `config` as the real runtime does (nothing is enqueued when it returns an error), then enqueues the grid.
// A Fault of the kernel becomes cudaErrorLaunchFailure, sticky; its message is what cudaGetErrorString() then says.
cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel, std::function<void()> thread);

// Enqueues `work`, which may throw: that becomes the sticky error, as above.
cudaError_t enqueue(cudaStream_t stream, const char* what, std::function<void()> work);

// Of grids from now on; at first what the environment's L2L_EMULATION_ORDER says, or 0. Thread-safe.
void set_order(Order order);
Order order();

// Forgets a sticky error, which a real process cannot.
void clear_error();

}  // namespace l2l::emulation

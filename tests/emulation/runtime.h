// What kernels' launches ask of the stand-in for the CUDA runtime, and the switches of tests.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/emulation/engine.h"

namespace l2l::emulation {

// Checks `config` as the real runtime does (nothing is enqueued when it returns an error), then enqueues the grid.
// A Fault of the kernel becomes cudaErrorLaunchFailure, sticky; its message is what cudaGetErrorString() then says.
cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel, std::function<void()> thread);

// Enqueues `work` (into the graph, where `stream` is being captured). It may throw: that becomes the sticky error.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> work);

// Of grids from now on; at first what the environment's L2L_EMULATION_ORDER says, or 0. Thread-safe.
void set_order(Order order);
Order order();

// The machine that is emulated. Thread-safe setter; in brackets, what of the environment sets it at first.
struct Machine {
  int devices = 1;                               // L2L_EMULATION_DEVICES
  int driver = 13000;                            // L2L_EMULATION_DRIVER: 12040 knows CUDA 12.4; 0: there is none
  std::size_t memory = std::size_t{4} << 30;     // L2L_EMULATION_MEMORY, bytes of the device
  std::size_t pinnable = std::size_t{64} << 30;  // L2L_EMULATION_PINNABLE, bytes that may be page-locked
  bool nccl = true;                              // false: NCCL makes no communicators
  int graphs = 1 << 30;                          // graphs_made() at which there is no memory for more
  std::chrono::microseconds delay{0};            // L2L_EMULATION_DELAY_US: streams wait up to this before each work
  std::size_t code = 0;                          // bytes of the device that a kernel takes when it is first launched
  bool products = true;                          // false: cuBLASLt has no algorithm for any product
  int fastest_product = 0;                       // L2L_EMULATION_FASTEST_PRODUCT, of the algorithms that it offers
  bool ignores_waits = false;                    // cudaStreamWaitEvent() does nothing: the law that must notice
};
void set_machine(const Machine& machine);
Machine machine();

// How many times cudaGraphInstantiate() has made a graph. Thread-safe.
int graphs_made();

// Kernels that have been launched since the last call of unload_kernels(). Thread-safe.
std::size_t kernels_loaded();
std::vector<std::string> names_of_loaded_kernels();  // without parameters
void unload_kernels();

// Forgets a sticky error, which a real process cannot. Nothing may be enqueued.
void clear_error();

}  // namespace l2l::emulation

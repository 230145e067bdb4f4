// What the application and the CUDA module (libl2l_cuda.so, opened at run time) agree on. Both are built from this tree
// and share its classes and its exceptions; the stamp refuses a module of another build.
#pragma once

#include <string>

#include "device/peers.h"
#include "device/tensor_group.h"
#include "l2l/log.h"

namespace l2l::device::cuda {

struct Settings {
  int index = 0;            // of the device, as the CUDA runtime counts them
  bool graphs = true;       // programs run as CUDA graphs
  Bytes pinned_memory = 0;  // limit on page-locked memory, beyond which copies are staged; 0: no limit
  bool tf32 = false;        // products of fp32 by TF32
};

// Its first two members never move: they are read before the stamp is compared.
struct Module {
  const char* stamp;
  // Writes messages of the module to `log`, which must live as long as the process. Throws BadInput when there is no
  // driver or no such device; DeviceError when the device refuses.
  Device* (*open)(const Settings& settings, void (*log)(LogLevel, std::string_view));
  // make_cuda_peers().
  Peers* (*join)(std::span<Device* const> devices, PeerCall call, std::string& reason);
  // make_cuda_tensor_group().
  TensorGroup* (*split)(std::span<Device* const> devices, std::string& reason);
};

// The one symbol that a module exports.
inline constexpr const char* kModuleSymbol = "l2l_cuda_module";

// Names the compiler and a hash of the headers that both sides share (device/meson.build, abi_headers), so incompatible
// builds have different stamps. Application and module each have their own copy of this function.
std::string module_stamp();

}  // namespace l2l::device::cuda

extern "C" const l2l::device::cuda::Module* l2l_cuda_module();

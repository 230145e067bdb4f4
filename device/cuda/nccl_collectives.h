// What the GPUs of a process exchange with each other, by NCCL. nullptr: it is missing or refuses, as `reason` says.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "device/cuda/device_state.h"
#include "device/peers.h"
#include "device/tensor_group.h"

namespace l2l::device::cuda {

// A communicator for each of these devices, as the CUDA runtime counts them, which has made one call of this kind.
std::unique_ptr<Peers> make_nccl_peers(std::span<const int> devices, PeerCall call, std::string& reason);

// The same of devices over which layers are split, whose communicators have made one call of each kind. Its abort()
// makes all of these devices fail.
std::unique_ptr<TensorGroup> make_nccl_tensor_group(std::span<const std::shared_ptr<DeviceState>> devices,
                                                    std::string& reason);

}  // namespace l2l::device::cuda

// What the GPUs of a process exchange with each other, by NCCL.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "device/peers.h"

namespace l2l::device::cuda {

// A communicator for each of these devices, as the CUDA runtime counts them, which has made one call of this kind.
// nullptr: NCCL is missing or refuses, as `reason` says.
std::unique_ptr<Peers> make_nccl_peers(std::span<const int> devices, PeerCall call, std::string& reason);

}  // namespace l2l::device::cuda

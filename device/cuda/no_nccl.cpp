#include "device/cuda/nccl_collectives.h"

namespace l2l::device::cuda {

std::unique_ptr<Peers> make_nccl_peers(std::span<const int>, PeerCall, std::string& reason) {
  reason = "this build has no NCCL";
  return nullptr;
}

std::unique_ptr<TensorGroup> make_nccl_tensor_group(std::span<const std::shared_ptr<DeviceState>>,
                                                    std::string& reason) {
  reason = "this build has no NCCL";
  return nullptr;
}

}  // namespace l2l::device::cuda

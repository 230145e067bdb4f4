// Devices over which layers are split (tensor parallelism): they run programs of the same ops at the same time, each on
// its share (compiler::Shard), and meet in the ops that exchange rows.
#pragma once

#include <exception>
#include <memory>
#include <span>
#include <string>

namespace l2l::device {

class Device;

// Each member is used by one thread at a time; abort() by any.
class TensorGroup {
 public:
  virtual ~TensorGroup() = default;
  virtual int members() const = 0;
  // For measuring what a share of a layer takes one device: a group of one device that gets what it gives, for each
  // member, and waits for nobody. Programs compute something else so.
  virtual std::shared_ptr<TensorGroup> alone() const = 0;
  // For a run that has failed on some device, for which the others would wait for ever; `cause`, where it is known, is
  // what waiting for them then throws. Only the first call counts.
  virtual void abort(std::exception_ptr cause = nullptr) noexcept = 0;
};

// A device's place in its group; no group: its layers are whole.
struct TensorMember {
  std::shared_ptr<TensorGroup> group;
  int index = 0;
};

// A group of these devices, in this order, which they are to join(). nullptr where they cannot exchange: `reason`, a
// clause for people, says why.
std::shared_ptr<TensorGroup> make_tensor_group(std::span<Device* const> devices, std::string& reason);

// Of devices of the CUDA module.
std::shared_ptr<TensorGroup> make_cuda_tensor_group(std::span<Device* const> devices, std::string& reason);

}  // namespace l2l::device

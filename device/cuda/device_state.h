// What the parts of a CUDA device share.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/failure.h"
#include "core/memory_account.h"
#include "core/trace.h"
#include "device/cuda/event.h"
#include "device/cuda/parameter_slots.h"
#include "device/cuda_module.h"
#include "device/kernels/common/cuda_kernel.h"
#include "device/kernels/common/product_choices.h"
#include "device/tensor_group.h"

namespace l2l::device::cuda {

class CudaStream;

// An event with the host time at which it happened: the origin of a trace's device times.
struct Origin {
  EventHandle event;
  Clock::time_point at;
};

// Thread-safe. Lives as long as anything of its device.
class DeviceState {
 public:
  // Throws BadInput when there is no driver or no such device.
  explicit DeviceState(const Settings& settings);
  ~DeviceState();
  DeviceState(const DeviceState&) = delete;
  DeviceState& operator=(const DeviceState&) = delete;

  // Non-blocking. Throws DeviceError.
  StreamHandle make_stream() const;
  // Bytes of the card, whoever holds the rest of them. Throws DeviceError.
  struct Memory {
    Bytes free, total;
  };
  Memory memory() const;
  // Makes the device that of the calling thread, as the CUDA runtime wants it before nearly every call.
  void select() const;
  // Stores the failure of what was enqueued, unless one is stored already, and ends the waits of devices that have
  // shares of the same layers.
  void fail(std::exception_ptr error);
  void fail(const std::string& what, cudaError_t status);

  const Settings settings;
  Context context;          // constant after construction
  std::string description;  // constant after construction
  int numa_node = -1;       // of host memory near the device; -1: unknown; constant after construction
  bool deferred = false;    // streams work on threads of their own (deferred.h); constant after construction
  std::unique_ptr<ParameterSlots> parameters;  // of streams; constant after construction
  std::unique_ptr<ProductChoices> products;    // of programs; constant after construction
  Failure failure;
  TensorMember tensor;  // of the thread that compiles; changes while the device is idle
  const std::shared_ptr<EventPool> order_events, timing_events;
  const std::shared_ptr<MemoryAccount> device_memory = std::make_shared<MemoryAccount>();
  std::atomic<Bytes> locked_bytes{0};  // of host memory, by allocate_pinned()

  std::mutex streams_mutex;
  std::vector<CudaStream*> streams;  // guarded by streams_mutex
  Trace* trace = nullptr;            // guarded by streams_mutex
  Origin origin;                     // of `trace`; guarded by streams_mutex

 private:
  CublasLtHandle cublas_lt_;
};

}  // namespace l2l::device::cuda

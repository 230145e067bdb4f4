// The measurements behind StepCosts.
#pragma once

#include <ctime>

#include <functional>

#include "runtime/tuning/step_costs.h"

namespace l2l::runtime {

// Thread-bound. Keeps the memory that it measures with.
class StepCosts::Bench {
 public:
  explicit Bench(const RunParts& parts);

  // Processor time of programs that run on the host's cores: that of one thread, which waits for no other, unless that
  // takes too long for the effort.
  Cost launch(const device::Executable& program, LayerIndex layer, Effort effort);
  // Of a graph, which is compiled. One of a share of a layer is measured without the other devices: the same bytes are
  // moved and added, and nobody is waited for.
  Cost launch(const compiler::Graph& graph, LayerIndex layer, Effort effort);
  Cost zero(Bytes bytes, Effort effort);
  Cost copy(Direction direction, Bytes bytes, Effort effort);
  Cost of_peers(device::PeerCall call, Bytes received, Effort effort);
  Cost parameter_update(const ModelLayout& layout, Effort effort);

 private:
  struct Lane {
    device::Device& device;
    device::Stream& stream;
  };
  using Enqueue = std::function<void()>;
  Cost time(Lane lane, const Enqueue& enqueue, int count);
  // `time`: the mean of so many runs.
  static Cost repeat(const std::function<Cost(int count)>& time, Effort effort);
  Cost repeat(Lane lane, const Enqueue& enqueue, Effort effort) {
    return repeat([&](int count) { return time(lane, enqueue, count); }, effort);
  }
  Cost launch(Lane lane, const device::Executable& program, LayerIndex layer, Effort effort);
  Lane own() const { return {device_, *stream_}; }
  Lane one_thread();
  // Throws OutOfMemory, also where that is more than the run may take.
  device::BufferView memory(Bytes bytes);
  device::Bindings bind(const device::Executable& program);

  const RunParts& parts_;
  device::Device& device_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<device::Device> one_thread_;  // a host device, opened when it is needed
  std::unique_ptr<device::Stream> one_stream_;
  std::unique_ptr<device::Buffer> memory_;  // as large as asked for so far
};

// Bytes per second, read and written together, of `threads` threads that change memory in place, as an update does; the
// best of some passes. Takes 192 MiB for some tenths of a second.
double measure_memory(int threads);

}  // namespace l2l::runtime

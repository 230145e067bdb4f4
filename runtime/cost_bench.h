// The measurements behind StepCosts.
#pragma once

#include <ctime>

#include <functional>

#include "runtime/step_costs.h"

namespace l2l::runtime {

// Thread-bound. Keeps the memory that it measures with.
class StepCosts::Bench {
 public:
  explicit Bench(const RunPlan& plan);

  Cost launch(const device::Executable& program, LayerIndex layer);
  Cost zero(Bytes bytes);
  Cost copy(Direction direction, Bytes bytes);
  Cost parameter_update(const ModelLayout& layout);

 private:
  using Enqueue = std::function<void()>;
  Cost time(const Enqueue& enqueue, int count);
  Cost repeat(const Enqueue& enqueue);
  device::BufferView memory(Bytes bytes, std::size_t region);

  const RunPlan& plan_;
  device::Device& device_;
  std::unique_ptr<device::Stream> stream_;
  std::vector<std::unique_ptr<device::Buffer>> regions_;  // by region, as large as asked for so far
};

}  // namespace l2l::runtime

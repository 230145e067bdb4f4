#include "runtime/tuning/cost_bench.h"

#include <algorithm>
#include <array>

#include "core/half_rows.h"
#include "core/trace.h"
#include "core/workers.h"
#include "runtime/engine.h"
#include "runtime/tuning/measuring_time.h"

namespace l2l::runtime {
namespace {

using compiler::Region;
using compiler::Value;
using device::Bindings;
using device::BufferView;

constexpr double kRoundSeconds = 0.03, kQuickSeconds = 0.008;
constexpr int kThoroughRounds = 9, kQuickRounds = 5;
constexpr int kMostRuns = 4000;  // in a round
constexpr double kLearningRate = 1e-6;

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

class Draw {
 public:
  std::uint32_t below(std::uint32_t limit) { return next() % limit; }
  float weight() { return 0.02f * (static_cast<float>(next()) * 0x1p-23f - 1.0f); }  // about as a new model's

 private:
  std::uint32_t next() { return (state_ = state_ * 1664525u + 1013904223u) >> 8; }
  std::uint32_t state_ = 1;
};

template <typename T, typename F>
void fill(BufferView memory, const F& value) {
  T* const elements = reinterpret_cast<T*>(memory.data);
  for (Bytes i = 0; i < memory.size / sizeof(T); ++i) elements[i] = value();
}

void fill(BufferView memory, DType dtype, std::int64_t vocabulary, Draw& draw) {
  if (dtype == DType::i32) {
    fill<std::int32_t>(memory, [&] { return draw.below(static_cast<std::uint32_t>(vocabulary)); });
  } else if (dtype == DType::f32) {
    fill<float>(memory, [&] { return draw.weight(); });
  } else if (dtype == DType::bf16) {
    fill<bf16>(memory, [&] { return to_bf16(draw.weight()); });
  } else if (dtype == DType::f16) {
    fill<f16>(memory, [&] { return to_f16(draw.weight()); });
  }
}

// The mean without the slowest and the fastest: a step is a sum of many such pieces, slow ones included.
Cost mean_of(std::vector<Cost> rounds) {
  std::sort(rounds.begin(), rounds.end(), [](const Cost& a, const Cost& b) { return a.seconds < b.seconds; });
  Cost sum;
  for (std::size_t i = 1; i + 1 < rounds.size(); ++i) sum = sum + rounds[i];
  return (1.0 / static_cast<double>(rounds.size() - 2)) * sum;
}

// Three arrays far larger than a cache.
constexpr std::int64_t kElements = 16 << 20;  // of an array: 64 MiB
constexpr std::int64_t kBlock = 64 << 10;
constexpr int kPasses = 6;  // the first one touches the pages
using Arrays = std::array<std::vector<float>, 3>;

void change(float* a, float* b, float* c) {
#pragma omp simd
  for (std::int64_t i = 0; i < kBlock; ++i) {
    b[i] += 0.5f * a[i];
    c[i] += 0.5f * b[i];
    a[i] += 0.5f * c[i];
  }
}

double seconds_of_pass(Arrays& arrays, Workers& workers) {
  const Clock::time_point begin = Clock::now();
  workers.parallel_for(kElements / kBlock, [&](std::int64_t block, int) {
    const std::int64_t first = block * kBlock;
    change(&arrays[0][static_cast<std::size_t>(first)], &arrays[1][static_cast<std::size_t>(first)],
           &arrays[2][static_cast<std::size_t>(first)]);
  });
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

StepCosts::Bench::Bench(const RunParts& parts)
    : parts_(parts),
      device_(*parts.device),
      stream_(device_.create_stream("calibration")),
      regions_(static_cast<std::size_t>(Region::count)) {}

BufferView StepCosts::Bench::memory(Bytes bytes, std::size_t region) {
  std::unique_ptr<device::Buffer>& buffer = regions_[region];
  if (!buffer || buffer->view().size < bytes) {
    buffer.reset();
    buffer = device_.allocate(bytes, "calibration");
  }
  return buffer->view().slice(0, bytes);
}

Cost StepCosts::Bench::time(Lane lane, const Enqueue& enqueue, int count) {
  const double processor = processor_seconds();
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < count; ++i) enqueue();
  lane.device.synchronize(lane.stream);
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return (1.0 / count) * Cost{seconds, processor_seconds() - processor};
}

// Of rounds of so many runs that each takes kRoundSeconds, or kQuickSeconds.
Cost StepCosts::Bench::repeat(Lane lane, const Enqueue& enqueue, Effort effort) {
  const bool quick = effort == Effort::quick;
  time(lane, enqueue, 1);
  const double once = std::max(1e-9, time(lane, enqueue, 2).seconds);
  const int count =
      std::clamp(static_cast<int>(measuring_time(quick ? kQuickSeconds : kRoundSeconds) / once), 1, kMostRuns);
  std::vector<Cost> rounds;
  for (int round = 0; round < (quick ? kQuickRounds : kThoroughRounds); ++round)
    rounds.push_back(time(lane, enqueue, count));
  return mean_of(std::move(rounds));
}

StepCosts::Bench::Lane StepCosts::Bench::one_thread() {
  if (!one_thread_) {
    one_thread_ = device::open_device({.kind = "host", .threads = 1});
    one_stream_ = one_thread_->create_stream("calibration");
  }
  return {*one_thread_, *one_stream_};
}

Cost StepCosts::Bench::launch(const device::Executable& program, LayerIndex layer, Effort effort) {
  Cost cost = launch(own(), program, layer, effort);
  if (!device_.uses_host_memory() || !computes_here(cost)) return cost;
  const Lane one = one_thread();
  cost.processor = launch(one, *one.device.compile(program.program().graph), layer, effort).seconds;
  return cost;
}

// Weights, activations and tokens are drawn; what accumulates is zero at first.
Cost StepCosts::Bench::launch(Lane lane, const device::Executable& program, LayerIndex layer, Effort effort) {
  const compiler::Graph& graph = program.program().graph;
  Bindings bindings;
  for (std::size_t i = 0; i < regions_.size(); ++i) {
    const Region region = static_cast<Region>(i);
    const Bytes bytes = region == Region::scratch ? program.program().scratch_bytes : graph.region_bytes(region);
    if (bytes == 0) continue;
    bindings[region] = memory(bytes, i);
    lane.device.fill_zero(lane.stream, bindings[region]);
  }
  Draw draw;
  std::vector<std::unique_ptr<device::Buffer>> staged;
  for (const Value& value : graph.values) {
    if (value.region == Region::scratch || value.region == Region::gradients || value.region == Region::carry) continue;
    staged.push_back(device_.allocate_pinned(value.bytes(), "calibration"));
    fill(staged.back()->view(), value.dtype, parts_.model.vocabulary, draw);
    lane.device.copy(lane.stream, bindings[value.region].slice(value.offset, value.bytes()), staged.back()->view());
  }
  lane.device.synchronize(lane.stream);
  device::LaunchParameters parameters;
  parameters.first_token = parts_.model.first_token(layer);
  parameters.loss_scale = 1e-3f;
  return repeat(
      lane, [&] { lane.device.launch(lane.stream, program, bindings, parameters); }, effort);
}

Cost StepCosts::Bench::zero(Bytes bytes) {
  const BufferView target = memory(bytes, static_cast<std::size_t>(Region::gradients));
  return repeat(own(), [&] { device_.fill_zero(*stream_, target); });
}

// The host's end is not in a cache, as state of many layers is not.
Cost StepCosts::Bench::copy(Direction direction, Bytes bytes) {
  constexpr Bytes kPool = 64 << 20;
  const Bytes places = std::max<Bytes>(1, kPool / std::max<Bytes>(1, bytes));
  const std::unique_ptr<device::Buffer> host = device_.allocate_pinned(places * bytes, "calibration");
  const BufferView near = memory(bytes, static_cast<std::size_t>(Region::weights));
  Bytes place = 0;
  return repeat(own(), [&] {
    const BufferView far = host->view().slice(place++ % places * bytes, bytes);
    direction == Direction::to_device ? device_.copy(*stream_, near, far) : device_.copy(*stream_, far, near);
  });
}

// Steps of a store with nothing beside it; the first ones fill the gradient buffers, which stay as they are.
Cost StepCosts::Bench::parameter_update(const ModelLayout& layout) {
  constexpr int kWarmUp = 2, kSteps = 5;
  constexpr double kSquares = 1;  // as the device hands them over: no check reads the gradients
  Failure failure;
  PinnedMemory memory(device_);
  eps::ParameterStore store(layout, parts_.store, memory, failure, nullptr);
  const double parameters = static_cast<double>(layout.layers.size()) * static_cast<double>(layout.largest_layer());
  Draw draw;
  std::vector<Cost> rounds;
  for (int step = 0; step < kWarmUp + kSteps; ++step) {
    const double processor = processor_seconds();
    const auto busy = store.work().busy;
    store.begin_step(static_cast<std::uint64_t>(step), kLearningRate);
    for (LayerIndex layer = 0; layer < static_cast<LayerIndex>(layout.layers.size()); ++layer) {
      for (int device = 0; device < parts_.store.devices; ++device) {
        eps::GradientBuffer gradients = store.gradient_buffer(layer, device);
        if (step < kWarmUp) fill({gradients.data(), gradients.bytes()}, parts_.store.gradients, 1, draw);
        store.push(layer, device, std::move(gradients), kSquares);
      }
    }
    store.finish_step();
    store.complete_updates();
    if (step < kWarmUp) continue;
    const double seconds = std::chrono::duration<double>(store.work().busy - busy).count();
    rounds.push_back((1 / parameters) * Cost{seconds, processor_seconds() - processor});
  }
  return mean_of(std::move(rounds));
}

double measure_memory(int threads) {
  Workers workers("memory", threads);
  Arrays arrays;
  for (std::vector<float>& array : arrays) array.resize(kElements);
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const double bytes = 2.0 * 3 * sizeof(float) * kElements;
    best = std::max(best, bytes / seconds_of_pass(arrays, workers));
  }
  return best;
}

}  // namespace l2l::runtime

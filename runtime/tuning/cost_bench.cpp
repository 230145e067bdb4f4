#include "runtime/tuning/cost_bench.h"

#include <algorithm>
#include <random>

#include "core/half_rows.h"
#include "core/process_limits.h"
#include "core/run_at_once.h"
#include "core/trace.h"
#include "core/workers.h"
#include "models/streams.h"
#include "runtime/engine.h"

namespace l2l::runtime {
namespace {

using compiler::Region;
using compiler::Value;
using device::Bindings;
using device::BufferView;

constexpr int kMostRuns = 4000;  // in a round
constexpr int kDrawn = 1 << 16;  // elements of an array; the others repeat them
constexpr double kLearningRate = 1e-6;
constexpr Bytes kPool = 64 * kMiB;  // of host memory that copies go through

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Rounds {
  int count;
  double seconds;  // of each
};
Rounds rounds_of(Effort effort) {
  if (effort == Effort::thorough) return {9, 0.03};
  return effort == Effort::quick ? Rounds{5, 0.008} : Rounds{3, 0.002};
}

// Tokens, targets and classes below `vocabulary`; numbers about as a new model's weights.
void fill(BufferView memory, DType dtype, std::int64_t vocabulary, std::minstd_rand& random) {
  const auto elements = [&](auto kind, const auto& value) {
    auto* const first = reinterpret_cast<decltype(kind)*>(memory.data);
    const auto count = static_cast<std::int64_t>(memory.size / sizeof kind);
    std::generate_n(first, std::min<std::int64_t>(count, kDrawn), value);
    for (std::int64_t i = kDrawn; i < count; i += kDrawn) {
      std::copy_n(first, std::min<std::int64_t>(count - i, kDrawn), first + i);
    }
  };
  const auto weight = [&] { return 0.02f * (static_cast<float>(random()) * 0x1p-30f - 1.0f); };
  if (dtype == DType::i32) elements(std::int32_t{}, [&] { return static_cast<std::int32_t>(random() % vocabulary); });
  if (dtype == DType::f32) elements(float{}, weight);
  if (dtype == DType::bf16) elements(bf16{}, [&] { return to_bf16(weight()); });
  if (dtype == DType::f16) elements(f16{}, [&] { return to_f16(weight()); });
}

// The mean without the slowest and the fastest: a step is a sum of many such pieces, slow ones included.
Cost mean_of(std::vector<Cost> rounds) {
  std::sort(rounds.begin(), rounds.end(), [](const Cost& a, const Cost& b) { return a.seconds < b.seconds; });
  Cost sum;
  for (std::size_t i = 1; i + 1 < rounds.size(); ++i) sum = sum + rounds[i];
  return (1.0 / static_cast<double>(rounds.size() - 2)) * sum;
}

// Changes three arrays in place.
void change(float* a, float* b, float* c, std::int64_t elements) {
#pragma omp simd
  for (std::int64_t i = 0; i < elements; ++i) {
    b[i] += 0.5f * a[i];
    c[i] += 0.5f * b[i];
    a[i] += 0.5f * c[i];
  }
}

// Other work on the machine only ever adds, and few rounds do not show how much on average.
Cost least_of(const std::vector<Cost>& rounds) {
  return *std::min_element(rounds.begin(), rounds.end(),
                           [](const Cost& a, const Cost& b) { return a.seconds < b.seconds; });
}

// The first device of a group, for what is compiled and launched in its life.
class OutsideItsGroup {
 public:
  OutsideItsGroup(device::Device& device, std::shared_ptr<device::TensorGroup> group)
      : device_(device), group_(std::move(group)) {
    device_.join({group_->alone(), 0});
  }
  OutsideItsGroup(const OutsideItsGroup&) = delete;
  OutsideItsGroup& operator=(const OutsideItsGroup&) = delete;
  ~OutsideItsGroup() { device_.join({group_, 0}); }

 private:
  device::Device& device_;
  const std::shared_ptr<device::TensorGroup> group_;
};

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

}  // namespace

StepCosts::Bench::Bench(const RunParts& parts)
    : parts_(parts), device_(*parts.device), stream_(device_.create_stream("calibration")) {
  // Libraries and threads of one_thread() take some, and some crash where they get none.
  constexpr Bytes kLibraries = 48 * kMiB;
  constexpr int kThreads = 3;
  check_address_space(kPool + kLibraries, kThreads);
}

BufferView StepCosts::Bench::memory(Bytes bytes) {
  if (!memory_ || memory_->view().size < bytes) {
    const std::optional<DeviceLimit> limit = device_limit(parts_);
    if (limit && bytes > limit->bytes) {
      throw OutOfMemory("measuring needs " + format_bytes(bytes) + ", more than " + limit->name + ", " +
                        format_bytes(limit->bytes));
    }
    memory_.reset();
    memory_ = device_.allocate(bytes, "calibration");
  }
  return memory_->view().slice(0, bytes);
}

Bindings StepCosts::Bench::bind(const device::Executable& program) {
  constexpr Bytes kAlignment = 256;
  const compiler::Graph& graph = program.program().graph;
  const auto bytes_of = [&](Region region) {
    return region == Region::scratch ? program.program().scratch_bytes : graph.region_bytes(region);
  };
  constexpr auto kRegions = static_cast<std::size_t>(Region::count);
  Bytes all = 0;
  for (std::size_t i = 0; i < kRegions; ++i) all += align_up(bytes_of(static_cast<Region>(i)), kAlignment);
  const BufferView memory = this->memory(all);
  Bindings bindings;
  Bytes offset = 0;
  for (std::size_t i = 0; i < kRegions; ++i) {
    const auto region = static_cast<Region>(i);
    const Bytes bytes = bytes_of(region);
    if (bytes > 0) bindings[region] = memory.slice(offset, bytes);
    offset += align_up(bytes, kAlignment);
  }
  return bindings;
}

Cost StepCosts::Bench::time(Lane lane, const Enqueue& enqueue, int count) {
  const double processor = processor_seconds();
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < count; ++i) enqueue();
  lane.device.synchronize(lane.stream);
  const double seconds = seconds_since(begin);
  return (1.0 / count) * Cost{seconds, processor_seconds() - processor};
}

Cost StepCosts::Bench::repeat(const std::function<Cost(int count)>& time, Effort effort) {
  const Cost first = time(1);
  if (effort == Effort::brief && first.seconds > kLongRun) return first;
  const Rounds wanted = rounds_of(effort);
  const double once = std::max(1e-9, time(2).seconds);
  const int count = std::clamp(static_cast<int>(measuring_time(wanted.seconds) / once), 1, kMostRuns);
  std::vector<Cost> rounds;
  for (int round = 0; round < wanted.count; ++round) rounds.push_back(time(count));
  return effort == Effort::brief ? least_of(rounds) : mean_of(std::move(rounds));
}

StepCosts::Bench::Lane StepCosts::Bench::one_thread() {
  if (!one_thread_) {
    one_thread_ = device::open_device({.kind = "host", .threads = 1});
    if (parts_.execution.tensor > 1) one_thread_->join({parts_.peers.tensor.front()->alone(), 0});
    one_stream_ = one_thread_->create_stream("calibration");
  }
  return {*one_thread_, *one_stream_};
}

Cost StepCosts::Bench::launch(const compiler::Graph& graph, LayerIndex layer, Effort effort) {
  std::optional<OutsideItsGroup> outside;
  if (parts_.execution.tensor > 1) outside.emplace(device_, parts_.peers.tensor.front());
  return launch(*device_.compile(graph), layer, effort);
}

Cost StepCosts::Bench::launch(const device::Executable& program, LayerIndex layer, Effort effort) {
  Cost cost = launch(own(), program, layer, effort);
  if (!device_.uses_host_memory() || !computes_here(cost)) return cost;
  if (effort == Effort::brief && cost.seconds > kLongRun) return cost;
  const Lane one = one_thread();
  cost.processor = launch(one, *one.device.compile(program.program().graph), layer, effort).seconds;
  return cost;
}

// Weights, activations and tokens are drawn; what accumulates is zero at first.
Cost StepCosts::Bench::launch(Lane lane, const device::Executable& program, LayerIndex layer, Effort effort) {
  const compiler::Graph& graph = program.program().graph;
  const Bindings bindings = bind(program);
  lane.device.fill_zero(lane.stream, memory_->view());
  std::minstd_rand random;
  std::vector<std::unique_ptr<device::Buffer>> staged;
  for (const Value& value : graph.values) {
    if (value.region == Region::scratch || value.region == Region::gradients || value.region == Region::carry) continue;
    if (value.region == Region::rows) continue;
    staged.push_back(device_.allocate_pinned(value.bytes(), "calibration"));
    fill(staged.back()->view(), value.dtype, std::min(parts_.model.vocabulary, parts_.model.outputs()), random);
    lane.device.copy(lane.stream, bindings[value.region].slice(value.offset, value.bytes()), staged.back()->view());
  }
  if (const Bytes bytes = graph.region_bytes(Region::rows); bytes > 0) {
    const Bytes all = parts_.model.row_fields_bytes();
    staged.push_back(device_.allocate_pinned(all, "calibration"));
    const device::BufferView view = staged.back()->view();
    models::write_single_documents({reinterpret_cast<std::int32_t*>(view.data), all / sizeof(std::int32_t)},
                                   parts_.options.model.sequence);
    lane.device.copy(lane.stream, bindings[Region::rows], view.slice(0, bytes));
  }
  lane.device.synchronize(lane.stream);
  device::LaunchParameters parameters;
  parameters.first_token = parts_.model.first_token(layer);
  parameters.loss_scale = 1e-3f;
  return repeat(
      lane, [&] { lane.device.launch(lane.stream, program, bindings, parameters); }, effort);
}

Cost StepCosts::Bench::zero(Bytes bytes, Effort effort) {
  const BufferView target = memory(bytes);
  return repeat(
      own(), [&] { device_.fill_zero(*stream_, target); }, effort);
}

// The host's end is not in a cache, as state of many layers is not.
Cost StepCosts::Bench::copy(Direction direction, Bytes bytes, Effort effort) {
  const Bytes places = std::max<Bytes>(1, kPool / std::max<Bytes>(1, bytes));
  const std::unique_ptr<device::Buffer> host = device_.allocate_pinned(places * bytes, "calibration");
  const BufferView near = memory(bytes);
  Bytes place = 0;
  return repeat(
      own(),
      [&] {
        const BufferView far = host->view().slice(place++ % places * bytes, bytes);
        direction == Direction::to_device ? device_.copy(*stream_, near, far) : device_.copy(*stream_, far, near);
      },
      effort);
}

// By all devices at once, each with a thread, as in a run.
Cost StepCosts::Bench::of_peers(device::PeerCall call, Bytes received, Effort effort) {
  const bool gathers = call == device::PeerCall::all_gather;
  device::Peers& peers = gathers ? *parts_.peers.weights : *parts_.peers.gradients;
  const auto members = static_cast<std::size_t>(peers.count());
  std::vector<std::unique_ptr<device::Buffer>> wholes, others_slices;
  std::vector<std::unique_ptr<device::Stream>> streams;
  for (const auto& device : parts_.devices) {
    wholes.push_back(device->allocate(received / (members - 1) * members, "calibration"));
    others_slices.push_back(device->allocate(gathers ? 0 : wholes.back()->view().size, "calibration"));
    streams.push_back(device->create_stream("calibration"));
  }
  const auto run = [&](std::size_t member, int count) {
    for (int i = 0; i < count; ++i) {
      const int index = static_cast<int>(member);
      if (gathers) {
        peers.all_gather(index, *streams[member], wholes[member]->view());
      } else {
        peers.all_to_all(index, *streams[member], wholes[member]->view(), others_slices[member]->view());
      }
    }
    parts_.devices[member]->synchronize(*streams[member]);
  };
  const auto time = [&](int count) {
    const double processor = processor_seconds();
    const Clock::time_point begin = Clock::now();
    run_at_once(
        members, [&](std::size_t member) { run(member, count); }, [&](std::exception_ptr) { peers.abort(); });
    return (1.0 / count) * Cost{seconds_since(begin), processor_seconds() - processor};
  };
  return repeat(time, effort);
}

// Steps of a store with nothing beside it; the first ones fill the gradient buffers, which stay as they are.
Cost StepCosts::Bench::parameter_update(const ModelLayout& layout, Effort effort) {
  const int warm_up = effort == Effort::brief ? 1 : 2, steps = effort == Effort::brief ? 3 : 5;
  constexpr double kSquares = 1;  // as the device hands them over: no check reads the gradients
  Failure failure;
  PinnedMemory memory(device_);
  eps::ParameterStore store(layout, of_one_rank(parts_.store), memory, failure, nullptr);
  const double parameters = static_cast<double>(layout.layers.size()) * static_cast<double>(layout.largest_layer());
  std::minstd_rand random;
  std::vector<Cost> rounds;
  for (int step = 0; step < warm_up + steps; ++step) {
    const double processor = processor_seconds();
    const auto busy = store.work().busy;
    store.begin_step(static_cast<std::uint64_t>(step), kLearningRate);
    for (LayerIndex layer = 0; layer < static_cast<LayerIndex>(layout.layers.size()); ++layer) {
      for (int device = 0; device < parts_.store.devices; ++device) {
        eps::GradientBuffer gradients = store.gradient_buffer(layer, device);
        if (step < warm_up) fill({gradients.data(), gradients.bytes()}, parts_.store.pushed_type(), 1, random);
        store.push(layer, device, std::move(gradients), kSquares);
      }
    }
    store.finish_step();
    store.complete_updates();
    if (step < warm_up) continue;
    const double seconds = std::chrono::duration<double>(store.work().busy - busy).count();
    rounds.push_back((1 / parameters) * Cost{seconds, processor_seconds() - processor});
  }
  return effort == Effort::brief ? least_of(rounds) : mean_of(std::move(rounds));
}

double measure_memory(int threads) {
  constexpr std::int64_t kElements = 16 << 20, kBlock = 64 << 10;  // an array is 64 MiB: far larger than a cache
  constexpr int kPasses = 6;                                       // the first one touches the pages
  Workers workers("memory", threads);
  std::vector<float> a(kElements), b(kElements), c(kElements);
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const Clock::time_point begin = Clock::now();
    workers.parallel_for(kElements / kBlock, [&](std::int64_t block, int) {
      const std::int64_t first = block * kBlock;
      change(a.data() + first, b.data() + first, c.data() + first, kBlock);
    });
    best = std::max(best, 2.0 * 3 * sizeof(float) * kElements / seconds_since(begin));
  }
  return best;
}

}  // namespace l2l::runtime

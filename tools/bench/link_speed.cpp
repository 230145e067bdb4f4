#include "tools/bench/link_speed.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "core/trace.h"
#include "runtime/tuning/median.h"

namespace l2l::tools {
namespace {

constexpr int kRounds = 5;
constexpr double kLeastSeconds = 0.1;  // of a round of one direction

// One direction: two buffers and a stream.
class Lane {
 public:
  Lane(device::Device& device, Bytes bytes, bool to_device)
      : device_(device),
        to_device_(to_device),
        near_(device.allocate(bytes, "link benchmark")),
        host_(device.allocate_pinned(bytes, "link benchmark")),
        stream_(device.create_stream(to_device ? "h2d" : "d2h")) {}

  void enqueue(int copies) {
    for (int i = 0; i < copies; ++i) {
      to_device_ ? device_.copy(*stream_, near_->view(), host_->view())
                 : device_.copy(*stream_, host_->view(), near_->view());
    }
  }
  void finish() { device_.synchronize(*stream_); }

 private:
  device::Device& device_;
  const bool to_device_;
  const std::unique_ptr<device::Buffer> near_, host_;
  const std::unique_ptr<device::Stream> stream_;
};

double seconds_of(Lane& lane, int copies) {
  const Clock::time_point begin = Clock::now();
  lane.enqueue(copies);
  lane.finish();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// So many that they take kLeastSeconds.
int copies_of(Lane& lane) {
  seconds_of(lane, 1);  // the first one may prepare something
  return 1 + static_cast<int>(kLeastSeconds / std::max(seconds_of(lane, 1), 1e-5));
}

// Of `lane` while `other` has more to do than it.
double seconds_beside(Lane& lane, int copies, Lane& other, int others) {
  other.enqueue(others);
  const double seconds = seconds_of(lane, copies);
  other.finish();
  return seconds;
}

}  // namespace

LinkSpeed measure_link(const device::DeviceSettings& settings, Bytes bytes) {
  const std::unique_ptr<device::Device> device = device::open_device(settings);
  Lane in(*device, bytes, true), out(*device, bytes, false);
  const int ins = copies_of(in), outs = copies_of(out);
  std::vector<double> h2d, d2h, both_h2d, both_d2h;
  const auto rate = [&](int copies, double seconds) { return static_cast<double>(bytes) * copies / seconds; };
  for (int round = 0; round < kRounds; ++round) {
    h2d.push_back(rate(ins, seconds_of(in, ins)));
    d2h.push_back(rate(outs, seconds_of(out, outs)));
    both_h2d.push_back(rate(ins, seconds_beside(in, ins, out, 3 * outs)));
    both_d2h.push_back(rate(outs, seconds_beside(out, outs, in, 3 * ins)));
  }
  return {device->description(), runtime::median(h2d), runtime::median(d2h), runtime::median(both_h2d),
          runtime::median(both_d2h)};
}

}  // namespace l2l::tools

#include "collectives/paced.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace l2l::collectives {
namespace {

using Clock = std::chrono::steady_clock;

class PacedExchange final : public Exchange {
 public:
  PacedExchange(std::unique_ptr<Exchange> inner, Clock::time_point end) : inner_(std::move(inner)), end_(end) {}
  bool done() override { return Clock::now() >= end_ && inner_->done(); }
  void wait() override {
    inner_->wait();
    std::this_thread::sleep_until(end_);
  }
  void abandon() override { inner_->abandon(); }

 private:
  const std::unique_ptr<Exchange> inner_;
  const Clock::time_point end_;
};

class Paced final : public Transport {
 public:
  Paced(std::unique_ptr<Transport> inner, Bytes bandwidth) : inner_(std::move(inner)), bandwidth_(bandwidth) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::unique_ptr<Exchange> start(std::span<const Send> sent, std::span<const Receive> received, int channel) override {
    Bytes out = 0, in = 0;
    for (const Send& piece : sent) out += piece.bytes.size();
    for (const Receive& piece : received) in += piece.bytes.size();
    const Clock::time_point end = std::max(take(out_free_, out), take(in_free_, in));
    return std::make_unique<PacedExchange>(inner_->start(sent, received, channel), end);
  }
  int channels() const override { return inner_->channels(); }
  int neighbours() const override { return inner_->neighbours(); }
  Bytes buffer_bytes() const override { return inner_->buffer_bytes(); }
  std::unique_ptr<Transport> split(int color) override { return paced(inner_->split(color), bandwidth_); }
  void end_is_agreed() override { inner_->end_is_agreed(); }
  void abort(const std::string& reason) override { inner_->abort(reason); }

 private:
  Clock::time_point take(Clock::time_point& free, Bytes bytes) const {
    const std::chrono::duration<double> seconds(static_cast<double>(bytes) / static_cast<double>(bandwidth_));
    free = std::max(free, Clock::now()) + std::chrono::duration_cast<Clock::duration>(seconds);
    return free;
  }

  const std::unique_ptr<Transport> inner_;
  const Bytes bandwidth_;
  Clock::time_point out_free_, in_free_;  // when what was started before is through
};

}  // namespace

std::unique_ptr<Transport> paced(std::unique_ptr<Transport> inner, Bytes bandwidth) {
  return std::make_unique<Paced>(std::move(inner), bandwidth);
}

}  // namespace l2l::collectives

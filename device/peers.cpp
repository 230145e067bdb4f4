#include "device/peers.h"

#include <algorithm>
#include <vector>

#include "core/fault_point.h"
#include "device/barrier.h"
#include "device/host_tensor_group.h"
#include "l2l/errors.h"

namespace l2l::device {
namespace {

// Devices in host memory: each copies out of the memory of the others. The threads meet twice in a call, so that an
// event is recorded before anybody waits for it; the rest is up to the streams.
class CopyingPeers final : public Peers {
 public:
  explicit CopyingPeers(std::span<Device* const> devices) : barrier_(static_cast<int>(devices.size())) {
    for (Device* const device : devices) {
      members_.push_back({*device, {}, device->create_event(), device->create_event()});
    }
  }

  std::string description() const override { return "copies from device to device"; }
  int count() const override { return static_cast<int>(members_.size()); }

  void all_gather(int member, Stream& stream, BufferView whole) override {
    exchange(member, stream, whole, [&](int peer, BufferView of_peer) {
      if (peer == member) return;
      const Bytes slice = whole.size / members_.size(), begin = static_cast<Bytes>(peer) * slice;
      device_of(member).copy_from_peer(stream, whole.slice(begin, slice), of_peer.slice(begin, slice));
    });
  }

  void all_to_all(int member, Stream& stream, BufferView sent, BufferView received) override {
    if (received.size != sent.size) throw_sizes(sent.size, received.size);
    exchange(member, stream, sent, [&](int peer, BufferView of_peer) {
      const Bytes slice = sent.size / members_.size();
      const BufferView from = of_peer.slice(static_cast<Bytes>(member) * slice, slice);
      const BufferView to = received.slice(static_cast<Bytes>(peer) * slice, slice);
      peer == member ? device_of(member).copy(stream, to, from) : device_of(member).copy_from_peer(stream, to, from);
    });
  }

  void abort() noexcept override { barrier_.abort(); }

 private:
  struct Member {
    Device& device;
    BufferView given;  // what the others read in the call in progress
    std::unique_ptr<Event> brought, taken;
  };

  Device& device_of(int member) const { return members_[static_cast<std::size_t>(member)].device; }

  // Calls take(peer, its `given`) for all members, in an order of this one's own, when what they give is there.
  template <typename Take>
  void exchange(int member, Stream& stream, BufferView given, const Take& take) {
    Member& own = members_[static_cast<std::size_t>(member)];
    own.given = given;
    own.device.record(*own.brought, stream);
    barrier_.arrive_and_wait();
    check_sizes(given);
    for (int i = 0; i < count(); ++i) {
      const int at = (member + i) % count();
      const Member& peer = members_[static_cast<std::size_t>(at)];
      if (at != member && !fault_point("peers.read_early")) own.device.wait(stream, *peer.brought);
      take(at, peer.given);
    }
    own.device.record(*own.taken, stream);
    barrier_.arrive_and_wait();
    // Until they have read what this member gives, it must not change.
    if (fault_point("peers.overwrite_early")) return;
    for (const Member& peer : members_) {
      if (&peer != &own) own.device.wait(stream, *peer.taken);
    }
  }

  [[noreturn]] void throw_sizes(Bytes here, Bytes there) const {
    const std::string exchange = "exchange among " + std::to_string(count()) + " devices: of " + std::to_string(here);
    if (here == there) throw Error(exchange + " bytes, which are no equal shares");
    throw Error(exchange + " bytes here, of " + std::to_string(there) + " there");
  }
  // Where one throws, all do, when the last has looked: then they may call again.
  void check_sizes(BufferView given) {
    for (const Member& member : members_) {
      const Bytes there = member.given.size;
      if (there == given.size && given.size % members_.size() == 0) continue;
      barrier_.arrive_and_wait();
      throw_sizes(given.size, there);
    }
  }

  std::vector<Member> members_;  // `given`: written by its thread before, and read by all after they have met
  Barrier barrier_;
};

}  // namespace

std::unique_ptr<Peers> make_peers(std::span<Device* const> devices, PeerCall call, std::string& reason) {
  if (std::ranges::all_of(devices, &Device::uses_host_memory)) return std::make_unique<CopyingPeers>(devices);
  return make_cuda_peers(devices, call, reason);
}

std::shared_ptr<TensorGroup> make_tensor_group(std::span<Device* const> devices, std::string& reason) {
  if (std::ranges::all_of(devices, &Device::uses_host_memory)) {
    return std::make_shared<HostTensorGroup>(static_cast<int>(devices.size()));
  }
  return make_cuda_tensor_group(devices, reason);
}

}  // namespace l2l::device

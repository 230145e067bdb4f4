// Groups of devices that exchange slices, and what each of their threads does.
#pragma once

#include <atomic>
#include <cstring>
#include <thread>

#include "device/peers.h"
#include "l2l/errors.h"
#include "tests/conformance/device/device_test.h"

namespace l2l::device {

// Devices of a backend as a group; without one where the machine has fewer or they cannot exchange: `reason` says so.
struct PeersOfBackend {
  PeersOfBackend(const Backend& backend, int count) {
    try {
      for (int i = 0; i < count; ++i) devices.push_back(backend.open(i));
    } catch (const BadInput& error) {
      reason = error.what();
      return;
    }
    for (const auto& device : devices) members.push_back(device.get());
    peers = make_peers(members, PeerCall::all_gather, reason);
  }

  // Calls function(member) for each, on a thread of its own.
  template <typename Function>
  void run(const Function& function) const {
    std::vector<std::thread> threads;
    for (int member = 0; member < static_cast<int>(members.size()); ++member) {
      threads.emplace_back([&, member] { function(member); });
    }
    for (std::thread& thread : threads) thread.join();
  }

  std::vector<std::unique_ptr<Device>> devices;
  std::vector<Device*> members;
  std::string reason;
  std::unique_ptr<Peers> peers;
};

// One member's memory, which it fills, exchanges and copies out again and again.
class ExchangingMember {
 public:
  ExchangingMember(const PeersOfBackend& group, PeerCall call, int member, Bytes slice, int rounds)
      : device_(*group.members[static_cast<std::size_t>(member)]),
        peers_(*group.peers),
        call_(call),
        member_(member),
        slice_(slice),
        given_(device_.allocate(size(), "given")),
        received_(device_.allocate(size(), "received")),
        copied_(device_.create_event()),
        seen_(device_.create_event()),
        copies_(device_.create_stream("copies")),
        exchanges_(device_.create_stream("exchanges")) {
    for (int round = 0; round < rounds; ++round) {
      own_.push_back(pinned(device_, size(), 0));
      taken_.push_back(pinned(device_, size(), 0xEE));
      for (int to = 0; to < peers_.count(); ++to) {
        std::memset(slice_of(own_.back()->view(), to).data, byte_of(round, member, to), slice);
      }
    }
  }

  // Without waiting for anything but the other members.
  void enqueue(int round) {
    const BufferView given = given_->view(), own = own_[static_cast<std::size_t>(round)]->view();
    device_.wait(*copies_, *seen_);
    if (call_ == PeerCall::all_gather) {
      device_.copy(*copies_, slice_of(given, member_), slice_of(own, member_));
    } else {
      device_.copy(*copies_, given, own);
    }
    device_.record(*copied_, *copies_);
    device_.wait(*exchanges_, *copied_);
    if (call_ == PeerCall::all_gather) {
      peers_.all_gather(member_, *exchanges_, given);
    } else {
      peers_.all_to_all(member_, *exchanges_, given, received_->view());
    }
    device_.copy(*exchanges_, taken_[static_cast<std::size_t>(round)]->view(),
                 call_ == PeerCall::all_gather ? given : received_->view());
    device_.record(*seen_, *exchanges_);
  }
  void synchronize() { device_.synchronize(*exchanges_); }

  // Rounds in which a slice is not what its member gave.
  int wrong() const {
    int wrong = 0;
    for (int round = 0; round < static_cast<int>(taken_.size()); ++round) {
      bool right = true;
      for (int from = 0; from < peers_.count(); ++from) {
        const int to = call_ == PeerCall::all_gather ? from : member_;
        right &= all(slice_of(taken_[static_cast<std::size_t>(round)]->view(), from), byte_of(round, from, to));
      }
      wrong += !right;
    }
    return wrong;
  }

 private:
  Bytes size() const { return static_cast<Bytes>(peers_.count()) * slice_; }
  BufferView slice_of(BufferView whole, int index) const {
    return whole.slice(static_cast<Bytes>(index) * slice_, slice_);
  }
  static unsigned char byte_of(int round, int from, int to) {
    return static_cast<unsigned char>(16 * (round % 15) + 4 * from + to);
  }

  Device& device_;
  Peers& peers_;
  const PeerCall call_;
  const int member_;
  const Bytes slice_;
  const std::unique_ptr<Buffer> given_, received_;
  std::vector<std::unique_ptr<Buffer>> own_, taken_;  // by round
  const std::unique_ptr<Event> copied_, seen_;
  const std::unique_ptr<Stream> copies_, exchanges_;  // last: their work ends first
};

// Of all members and rounds of a group, those that went wrong.
inline int wrong_rounds(const PeersOfBackend& group, PeerCall call, Bytes slice, int rounds) {
  std::vector<std::unique_ptr<ExchangingMember>> members;
  for (int member = 0; member < group.peers->count(); ++member) {
    members.push_back(std::make_unique<ExchangingMember>(group, call, member, slice, rounds));
  }
  group.run([&](int member) {
    ExchangingMember& own = *members[static_cast<std::size_t>(member)];
    for (int round = 0; round < rounds; ++round) own.enqueue(round);
    own.synchronize();
  });
  int wrong = 0;
  for (const auto& member : members) wrong += member->wrong();
  return wrong;
}

}  // namespace l2l::device

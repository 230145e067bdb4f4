// Groups of devices that gather, and what each of their threads does.
#pragma once

#include <atomic>
#include <thread>

#include "device/peers.h"
#include "l2l/errors.h"
#include "tests/conformance/device/device_test.h"

namespace l2l::device {

// Devices of a backend as a group; without one where the machine has fewer or they cannot gather: `reason` says so.
struct PeersOfBackend {
  PeersOfBackend(const Backend& backend, int count) {
    try {
      for (int i = 0; i < count; ++i) devices.push_back(backend.open(i));
    } catch (const BadInput& error) {
      reason = error.what();
      return;
    }
    for (const auto& device : devices) members.push_back(device.get());
    peers = make_peers(members, reason);
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

// One member's memory, which it fills, gathers and copies out again and again.
class GatheringMember {
 public:
  GatheringMember(const PeersOfBackend& group, int member, Bytes slice, int rounds)
      : device_(*group.members[static_cast<std::size_t>(member)]),
        peers_(*group.peers),
        member_(member),
        slice_(slice),
        memory_(device_.allocate(static_cast<Bytes>(peers_.count()) * slice, "whole")),
        copied_(device_.create_event()),
        seen_(device_.create_event()),
        copies_(device_.create_stream("copies")),
        gathers_(device_.create_stream("gathers")) {
    for (int round = 0; round < rounds; ++round) {
      own_.push_back(pinned(device_, slice, byte_of(round, member)));
      whole_.push_back(pinned(device_, memory_->view().size, 0xEE));
    }
  }

  static unsigned char byte_of(int round, int member) { return static_cast<unsigned char>(16 * (round % 15) + member); }

  // Without waiting for anything but the other members.
  void enqueue(int round) {
    device_.wait(*copies_, *seen_);
    device_.copy(*copies_, memory_->view().slice(static_cast<Bytes>(member_) * slice_, slice_),
                 own_[static_cast<std::size_t>(round)]->view());
    device_.record(*copied_, *copies_);
    device_.wait(*gathers_, *copied_);
    peers_.all_gather(member_, *gathers_, memory_->view());
    device_.copy(*gathers_, whole_[static_cast<std::size_t>(round)]->view(), memory_->view());
    device_.record(*seen_, *gathers_);
  }
  void synchronize() { device_.synchronize(*gathers_); }

  // Rounds of which it did not get every member's slice.
  int wrong() const {
    int wrong = 0;
    for (int round = 0; round < static_cast<int>(whole_.size()); ++round) {
      bool right = true;
      for (int from = 0; from < peers_.count(); ++from) {
        right &= all(whole_[static_cast<std::size_t>(round)]->view().slice(static_cast<Bytes>(from) * slice_, slice_),
                     byte_of(round, from));
      }
      wrong += !right;
    }
    return wrong;
  }

 private:
  Device& device_;
  Peers& peers_;
  const int member_;
  const Bytes slice_;
  const std::unique_ptr<Buffer> memory_;
  std::vector<std::unique_ptr<Buffer>> own_, whole_;  // by round
  const std::unique_ptr<Event> copied_, seen_;
  const std::unique_ptr<Stream> copies_, gathers_;  // last: their work ends first
};

// Of all members and rounds of a group, those that went wrong.
inline int wrong_gathers(const PeersOfBackend& group, Bytes slice, int rounds) {
  std::vector<std::unique_ptr<GatheringMember>> members;
  for (int member = 0; member < group.peers->count(); ++member) {
    members.push_back(std::make_unique<GatheringMember>(group, member, slice, rounds));
  }
  group.run([&](int member) {
    GatheringMember& own = *members[static_cast<std::size_t>(member)];
    for (int round = 0; round < rounds; ++round) own.enqueue(round);
    own.synchronize();
  });
  int wrong = 0;
  for (const auto& member : members) wrong += member->wrong();
  return wrong;
}

}  // namespace l2l::device

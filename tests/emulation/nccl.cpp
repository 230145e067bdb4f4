// The functions of NCCL that the project uses: communicators that do not block, and all-gathers and groups of sends and
// receives in their streams. Where the real library would hang, mix up data or misread a call, this one
// refuses it.
#include <nccl.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/emulation/state.h"
#include "tests/emulation/stream.h"

namespace l2l::emulation {
namespace {

// The communicators that were made of one id. Thread-safe.
class Clique {
 public:
  explicit Clique(int ranks) : members_(static_cast<std::size_t>(ranks)) {}

  // False: there is this rank, or one with this device.
  bool join(int rank, int device);
  bool complete() const;
  int ranks() const { return static_cast<int>(members_.size()); }
  // What a rank gives and takes in one exchange, slices of `bytes` bytes by peer.
  struct Call {
    bool gathers = false;  // an all-gather
    std::size_t bytes = 0;
    std::map<int, const std::byte*> sent = {};
    std::map<int, std::byte*> received = {};
  };
  // Of the streams: returns when all have come, also those who exchange nothing with this one, and their slices are
  // where they belong; or after abort(). Throws where ranks disagree.
  void exchange(int rank, const Call& call);
  // What the device does for this rank ends; the others go on waiting for it.
  void abort(int rank);

 private:
  struct Member {
    int device = -1;  // -1: has not joined
    bool aborted = false;
    Call call;
  };
  bool all_are_there() const;
  bool agree() const;
  void move();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Member> members_;  // guarded by mutex_, as is all that follows
  std::size_t arrived_ = 0;
  std::uint64_t exchanges_ = 0;  // done
  bool disagreed_ = false;
};

bool Clique::join(int rank, int device) {
  const std::lock_guard lock(mutex_);
  for (const Member& member : members_) {
    if (member.device == device) return false;
  }
  Member& joining = members_[static_cast<std::size_t>(rank)];
  if (joining.device >= 0) return false;
  joining.device = device;
  return true;
}

bool Clique::complete() const {
  const std::lock_guard lock(mutex_);
  for (const Member& member : members_) {
    if (member.device < 0) return false;
  }
  return true;
}

void Clique::exchange(int rank, const Call& call) {
  std::unique_lock lock(mutex_);
  Member& member = members_[static_cast<std::size_t>(rank)];
  if (member.aborted) return;
  member.call = call;
  const std::uint64_t turn = exchanges_;
  ++arrived_;
  if (all_are_there()) {
    move();
    arrived_ = 0;
    ++exchanges_;
    changed_.notify_all();
  }
  changed_.wait(lock, [&] { return exchanges_ != turn || member.aborted; });
  if (disagreed_) throw std::runtime_error("NCCL: ranks make different calls, or of different numbers of bytes");
}

// Once a rank has been aborted its memory may be gone: the exchange never ends.
bool Clique::all_are_there() const {
  return arrived_ == members_.size() && std::ranges::none_of(members_, &Member::aborted);
}

bool Clique::agree() const {
  const Call& first = members_.front().call;
  for (std::size_t rank = 0; rank < members_.size(); ++rank) {
    const Call& call = members_[rank].call;
    if (call.bytes != first.bytes || call.gathers != first.gathers) return false;
    for (std::size_t peer = 0; peer < members_.size(); ++peer) {
      const bool sends = call.sent.contains(static_cast<int>(peer));
      if (sends != members_[peer].call.received.contains(static_cast<int>(rank))) return false;
    }
  }
  return true;
}

void Clique::move() {
  disagreed_ = !agree();
  if (disagreed_) return;
  for (std::size_t to = 0; to < members_.size(); ++to) {
    const Call& call = members_[to].call;
    for (const auto& [from, place] : call.received) {
      const std::byte* const slice = members_[static_cast<std::size_t>(from)].call.sent.at(static_cast<int>(to));
      if (place != slice) std::memcpy(place, slice, call.bytes);
    }
  }
}

void Clique::abort(int rank) {
  {
    const std::lock_guard lock(mutex_);
    members_[static_cast<std::size_t>(rank)].aborted = true;
  }
  changed_.notify_all();
}

// Cliques by id, and the communicators that have not ended. Never destroyed, as streams are not.
struct Communicators {
  std::mutex mutex;
  std::uint64_t ids = 0;  // guarded by mutex, as are the next two
  std::map<std::uint64_t, std::shared_ptr<Clique>> cliques;
  std::set<ncclComm_t> alive;
};
Communicators& communicators() {
  static Communicators& made = *new Communicators;
  return made;
}

bool alive(ncclComm_t communicator) {
  const std::lock_guard lock(communicators().mutex);
  return communicators().alive.contains(communicator);
}

thread_local int groups = 0;  // that this thread has begun
// What it sends and receives in them, of one communicator and stream.
struct Sends {
  ncclComm_t communicator = nullptr;
  cudaStream_t stream = nullptr;
  Clique::Call call;
};
thread_local Sends sends;
thread_local std::string error;

ncclResult_t refuse(ncclResult_t status, const std::string& why) {
  error = why;
  return status;
}

}  // namespace
}  // namespace l2l::emulation

using namespace l2l::emulation;

struct ncclComm {
  std::shared_ptr<Clique> clique;
  int rank;
  bool asked = true;  // whether it was asked for since its last call, of which it says first that it is in progress
};

namespace {

ncclResult_t may_call(ncclComm_t communicator, ncclDataType_t type) {
  if (!alive(communicator)) return refuse(ncclInvalidArgument, "the communicator has ended");
  if (!communicator->asked || !communicator->clique->complete()) {
    return refuse(ncclInvalidUsage, "the call before is in progress");
  }
  if (type != ncclUint8) return refuse(ncclInvalidArgument, "only bytes are emulated");
  return ncclSuccess;
}

bool captured(cudaStream_t stream) {
  const std::lock_guard lock(capture_mutex());
  return stream_of(stream)->capture != nullptr;
}

bool overlap(const std::byte* a, const std::byte* b, std::size_t bytes) { return a < b + bytes && b < a + bytes; }

// Where what a call gives and takes is no memory of a device, or would be overwritten while it is read.
std::string bad_memory(const Clique::Call& call) {
  const auto inside = [&](const std::byte* slice) {
    return call.bytes == 0 || state().device.holds_all(slice, call.bytes);
  };
  for (const auto& [to, slice] : call.sent) {
    if (!inside(slice)) return "the memory is not a device's, or too small";
  }
  for (const auto& [from, place] : call.received) {
    if (!inside(place)) return "the memory is not a device's, or too small";
    for (const auto& [to, slice] : call.sent) {
      const bool in_place = call.gathers && slice == place;
      if (!in_place && overlap(slice, place, call.bytes)) return "slices overlap";
    }
    for (const auto& [other, elsewhere] : call.received) {
      if (other != from && overlap(elsewhere, place, call.bytes)) return "slices overlap";
    }
  }
  return "";
}

ncclResult_t start(ncclComm_t communicator, cudaStream_t stream, const Clique::Call& call) {
  if (captured(stream)) return refuse(ncclInvalidUsage, "calls that a graph captures are not emulated");
  if (const std::string why = bad_memory(call); !why.empty()) return refuse(ncclInvalidArgument, why);
  const auto run = [clique = communicator->clique, rank = communicator->rank, call] { clique->exchange(rank, call); };
  if (enqueue(stream, run) != cudaSuccess) return refuse(ncclUnhandledCudaError, "the stream takes no work");
  communicator->asked = false;
  return ncclInProgress;
}

ncclResult_t add_to_group(ncclComm_t communicator, cudaStream_t stream, std::size_t count, ncclDataType_t type,
                          int peer) {
  if (const ncclResult_t status = may_call(communicator, type); status != ncclSuccess) return status;
  if (groups == 0) return refuse(ncclInvalidUsage, "only sends and receives in a group are emulated");
  if (peer < 0 || peer >= communicator->clique->ranks()) return refuse(ncclInvalidArgument, "there is no such peer");
  if (sends.communicator == nullptr) sends = {communicator, stream, {.bytes = count}};
  if (sends.communicator != communicator || sends.stream != stream || sends.call.bytes != count) {
    return refuse(ncclInvalidUsage, "only groups of one communicator, stream and size are emulated");
  }
  return ncclSuccess;
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t status) {
  switch (status) {
    case ncclSuccess:
      return "no error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    default:
      return "another error";
  }
}

const char* ncclGetLastError(ncclComm_t) { return error.c_str(); }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::lock_guard lock(communicators().mutex);
  const std::uint64_t next = ++communicators().ids;
  std::memcpy(id->internal, &next, sizeof next);
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++groups;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (groups == 0) return refuse(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--groups > 0 || sends.communicator == nullptr) return ncclInProgress;
  const Sends made = std::exchange(sends, {});
  return start(made.communicator, made.stream, made.call);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  *communicator = nullptr;
  if (!machine().nccl) return refuse(ncclSystemError, "no communicators on this machine");
  if (rank < 0 || rank >= ranks) return refuse(ncclInvalidArgument, "rank outside of the communicator");
  if (config == nullptr || config->magic != 0xcafebeef || config->blocking != 0) {
    return refuse(ncclInvalidArgument, "communicators that block are not emulated");
  }
  if (groups == 0 && ranks > 1) return refuse(ncclInvalidUsage, "one thread makes several ranks outside of a group");
  int device = 0;
  cudaGetDevice(&device);
  std::uint64_t number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  const std::lock_guard lock(communicators().mutex);
  std::shared_ptr<Clique>& clique = communicators().cliques[number];
  if (!clique) clique = std::make_shared<Clique>(ranks);
  if (clique->ranks() != ranks || !clique->join(rank, device)) {
    return refuse(ncclInvalidUsage, "two ranks with the same number or device, or a number of ranks that differs");
  }
  *communicator = new ncclComm{clique, rank};
  communicators().alive.insert(*communicator);
  return ncclInProgress;
}

// A call shows as in progress once, for those who must ask again.
ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* status) {
  if (!alive(communicator)) return refuse(ncclInvalidArgument, "the communicator has ended");
  *status = communicator->asked && communicator->clique->complete() ? ncclSuccess : ncclInProgress;
  communicator->asked = true;
  return ncclSuccess;
}

ncclResult_t ncclAllGather(const void* slice, void* whole, size_t count, ncclDataType_t type, ncclComm_t communicator,
                           cudaStream_t stream) {
  if (const ncclResult_t status = may_call(communicator, type); status != ncclSuccess) return status;
  Clique::Call call{.gathers = true, .bytes = count};
  for (int rank = 0; rank < communicator->clique->ranks(); ++rank) {
    std::byte* const place = static_cast<std::byte*>(whole) + static_cast<std::size_t>(rank) * count;
    call.sent[rank] = static_cast<const std::byte*>(slice);
    call.received[rank] = place;
    if (rank != communicator->rank && slice == place) return refuse(ncclInvalidArgument, "the slice of another rank");
  }
  return start(communicator, stream, call);
}

ncclResult_t ncclSend(const void* sent, size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      cudaStream_t stream) {
  if (const ncclResult_t status = add_to_group(communicator, stream, count, type, peer); status != ncclSuccess) {
    return status;
  }
  if (!sends.call.sent.emplace(peer, static_cast<const std::byte*>(sent)).second) {
    return refuse(ncclInvalidUsage, "only one slice for each peer is emulated");
  }
  return ncclInProgress;
}

ncclResult_t ncclRecv(void* received, size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      cudaStream_t stream) {
  if (const ncclResult_t status = add_to_group(communicator, stream, count, type, peer); status != ncclSuccess) {
    return status;
  }
  if (!sends.call.received.emplace(peer, static_cast<std::byte*>(received)).second) {
    return refuse(ncclInvalidUsage, "only one slice from each peer is emulated");
  }
  return ncclInProgress;
}

ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  {
    const std::lock_guard lock(communicators().mutex);
    if (communicators().alive.erase(communicator) == 0) {
      return refuse(ncclInvalidArgument, "the communicator has ended");
    }
  }
  communicator->clique->abort(communicator->rank);
  delete communicator;
  return ncclSuccess;
}

// What is enqueued is still done.
ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  const std::lock_guard lock(communicators().mutex);
  if (communicators().alive.erase(communicator) == 0) return refuse(ncclInvalidArgument, "the communicator has ended");
  delete communicator;
  return ncclSuccess;
}

}  // extern "C"

// Moves bytes between the ranks of a run, which are processes, one on each node. Implementations: a single rank,
// threads (ranks of one process, for tests and measurements), MPI (a module that is opened at run time).
//
// Fail-stop: where an exchange fails, or an exception passes one that is under way, the run is at its end on every
// rank.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "core/bytes.h"

namespace l2l::collectives {

// This rank's part of something that ranks exchange. Its buffers stay alive and unchanged until it is done; they may be
// filled, and sent, only within these calls. Destroying it earlier waits; while an exception passes, it aborts the run,
// since peers may wait for what will not come.
class Exchange {
 public:
  virtual ~Exchange() = default;
  // Both throw Error, each time, where a peer is gone or sent fewer bytes than were expected, or more; but Open MPI 4.1
  // was seen to wait for ever for a message that is longer than its buffer.
  virtual bool done() = 0;
  virtual void wait() = 0;
  // After a failure: the destructor will neither wait nor abort. What peers wait for in it fails, or never comes.
  virtual void abandon() = 0;
};

struct Send {
  int to = 0;
  std::span<const std::byte> bytes;
};
struct Receive {
  int from = 0;
  std::span<std::byte> bytes;
};

// Of one rank. Thread-safe but for split() and the destructor, during which no other thread may use it, the transports
// that were split from it or their exchanges; each exchange is used by one thread.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;  // ranks there are

  // Sends and receives without waiting for either; peers are other ranks. What one rank sends to another on one channel
  // arrives in the order in which it was started, and each piece, an empty one too, has the size that its receiver
  // expects. Channels have numbers from 0 to below channels(), and no order among them.
  virtual std::unique_ptr<Exchange> start(std::span<const Send> sent, std::span<const Receive> received,
                                          int channel = 0) = 0;
  virtual int channels() const = 0;
  // Ranks on this machine, this one included.
  virtual int neighbours() const = 0;
  // Host memory that messages on their way take at most, in this process.
  virtual Bytes buffer_bytes() const = 0;
  // The ranks that give the same `color`, from 0 on, in the order of their ranks. All ranks call it.
  virtual std::unique_ptr<Transport> split(int color) = 0;
  // From now on the end of this transport is no failure of the run, also where an exception brings it: all ranks have
  // it.
  virtual void end_is_agreed() = 0;
  // Does not return. Ends the run on every rank: what waits there throws Error with `reason`, as this does, or the
  // processes end.
  virtual void abort(const std::string& reason) = 0;
};

// One rank, which has nobody to talk to.
std::unique_ptr<Transport> single();

// What buffer_bytes() of open_mpi() is with so many ranks on this machine: Open MPI has a segment of each, which all of
// them map, and its connections.
constexpr Bytes mpi_buffer_bytes(int ranks_here) { return (Bytes{4} * static_cast<Bytes>(ranks_here) + 2) * kMiB; }

// Opens libl2l_mpi.so and starts MPI, which ends with the last of this transport, those split from it, and their
// exchanges. Throws BadInput where the build has no such module, where MPI does not start or was started already, and
// where a launcher started several processes that MPI does not see as one run.
std::unique_ptr<Transport> open_mpi();

}  // namespace l2l::collectives

// Moves bytes between the ranks of a run, which are processes, one on each node. Implementations: alone (one rank),
// threads (ranks of one process, for tests and measurements), MPI (a module that is opened at run time).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace l2l::collectives {

// This rank's part of something that ranks exchange. Its memory rests until it is done; destroying it earlier waits.
class Exchange {
 public:
  virtual ~Exchange() = default;
  // Both throw Error where a peer is gone, or gave another number of bytes than was expected.
  virtual bool done() = 0;
  virtual void wait() = 0;
};

struct Outgoing {
  int to = 0;
  std::span<const std::byte> bytes;
};
struct Incoming {
  int from = 0;
  std::span<std::byte> bytes;
};

// Of one rank, which uses it from one thread at a time.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;  // ranks there are

  // Sends and receives without waiting for either; peers are other ranks. What one rank sends to another arrives in the
  // order in which it was started, and each piece has the size that its receiver expects.
  virtual std::unique_ptr<Exchange> start(std::span<const Outgoing> sent, std::span<const Incoming> received) = 0;
  // The ranks that give the same `color`, in the order of their ranks. All ranks call it.
  virtual std::unique_ptr<Transport> split(int color) = 0;
  // Ends the run on every rank, whatever they are doing: what waits there throws Error with `reason`, or the process
  // ends.
  virtual void abort(const std::string& reason) = 0;
};

// One rank, which has nobody to talk to.
std::unique_ptr<Transport> alone();

// Opens libl2l_mpi.so. The process is one that mpirun or srun started, or the only rank; the transport is opened once
// and lives until the process ends. Throws BadInput where the build has no such module, or MPI does not start.
std::unique_ptr<Transport> open_mpi();

}  // namespace l2l::collectives

// Which CPUs a thread may run on.
#pragma once

#include <array>
#include <string>
#include <vector>

namespace l2l {

// A set of CPUs, by the system's numbers. A value that allocates nothing.
class CpuSet {
 public:
  CpuSet() = default;
  // Ignores negative numbers and those from kMostCpus on.
  explicit CpuSet(const std::vector<int>& cpus);
  // The affinity mask of the calling thread; empty when the system does not tell it.
  static CpuSet of_thread() { return of_process(0); }
  // The same of another process's first thread.
  static CpuSet of_process(int process);

  bool empty() const { return *this == CpuSet(); }
  bool contains(int cpu) const;
  int count() const;
  std::vector<int> list() const;  // ascending
  // Keeps a thread (and threads that it starts later) on these CPUs; false when the system refuses. `thread`: as from
  // gettid(); 0: the calling one.
  bool apply(int thread = 0) const;
  bool operator==(const CpuSet&) const = default;

 private:
  static constexpr int kMostCpus = 8192;  // limit of Linux
  static constexpr int kBits = 8 * sizeof(unsigned long);
  std::array<unsigned long, kMostCpus / kBits> words_{};
};

// On how many CPUs the nearest ancestor of this process may run that was started without the environment variable
// `name`; 0 where the system does not tell.
int cpus_of_ancestor_without(const std::string& name);

// Keeps the calling thread on `cpus`; does nothing if they are empty. When the system refuses, the first call logs a
// warning and the thread runs where it may.
void bind_thread(const CpuSet& cpus);

}  // namespace l2l

// Which CPUs a thread may run on.
#pragma once

#include <array>
#include <vector>

namespace l2l {

// A value, without memory of its own elsewhere. CPUs are numbered as the system does.
class CpuSet {
 public:
  CpuSet() = default;
  // Numbers that no system has are left out.
  explicit CpuSet(const std::vector<int>& cpus);
  // Of the calling thread; empty when the system does not say.
  static CpuSet of_thread();

  bool empty() const { return *this == CpuSet(); }
  bool contains(int cpu) const;
  std::vector<int> list() const;  // ascending
  // Keeps a thread (and threads that it starts) on these CPUs; false when the system refuses. `thread`: its number in
  // the system (gettid()); 0: the calling one.
  bool apply(int thread = 0) const;
  bool operator==(const CpuSet&) const = default;

 private:
  static constexpr int kMostCpus = 8192;  // of Linux
  static constexpr int kBits = 8 * sizeof(unsigned long);
  std::array<unsigned long, kMostCpus / kBits> words_{};
};

// Keeps the calling thread on `cpus`, unless there are none. When the system refuses, the thread stays where it may
// run, and the first time a warning says so.
void bind_thread(const CpuSet& cpus);

}  // namespace l2l

#include "core/affinity.h"

#include <sched.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>

#include "core/log.h"

namespace l2l {

CpuSet::CpuSet(const std::vector<int>& cpus) {
  for (const int cpu : cpus) {
    if (cpu < 0 || cpu >= kMostCpus) continue;
    words_[static_cast<std::size_t>(cpu / kBits)] |= 1ul << (cpu % kBits);
  }
}

CpuSet CpuSet::of_thread() {
  CpuSet set;
  const int status = sched_getaffinity(0, sizeof set.words_, reinterpret_cast<cpu_set_t*>(set.words_.data()));
  return status == 0 ? set : CpuSet();
}

bool CpuSet::contains(int cpu) const {
  if (cpu < 0 || cpu >= kMostCpus) return false;
  return (words_[static_cast<std::size_t>(cpu / kBits)] >> (cpu % kBits) & 1) != 0;
}

std::vector<int> CpuSet::list() const {
  std::vector<int> cpus;
  for (int cpu = 0; cpu < kMostCpus; ++cpu) {
    if (contains(cpu)) cpus.push_back(cpu);
  }
  return cpus;
}

bool CpuSet::apply(int thread) const {
  return sched_setaffinity(thread, sizeof words_, reinterpret_cast<const cpu_set_t*>(words_.data())) == 0;
}

void bind_thread(const CpuSet& cpus) {
  static std::atomic<bool> warned{false};
  if (cpus.empty() || cpus.apply()) return;
  const int error = errno;
  if (warned.exchange(true)) return;
  log(LogLevel::warning,
      std::string("threads cannot be bound to their CPUs (") + std::strerror(error) + "): they run where they may");
}

}  // namespace l2l

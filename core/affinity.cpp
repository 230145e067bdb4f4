#include "core/affinity.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "core/log.h"

namespace l2l {

CpuSet::CpuSet(const std::vector<int>& cpus) {
  for (const int cpu : cpus) {
    if (cpu < 0 || cpu >= kMostCpus) continue;
    words_[static_cast<std::size_t>(cpu / kBits)] |= 1ul << (cpu % kBits);
  }
}

CpuSet CpuSet::of_process(int process) {
  CpuSet set;
  const int status = sched_getaffinity(process, sizeof set.words_, reinterpret_cast<cpu_set_t*>(set.words_.data()));
  return status == 0 ? set : CpuSet();
}

bool CpuSet::contains(int cpu) const {
  if (cpu < 0 || cpu >= kMostCpus) return false;
  return (words_[static_cast<std::size_t>(cpu / kBits)] >> (cpu % kBits) & 1) != 0;
}

int CpuSet::count() const {
  int count = 0;
  for (const unsigned long word : words_) count += std::popcount(word);
  return count;
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

int cpus_of_ancestors() {
  int most = 0;
  for (int process = getppid(); process > 0;) {
    most = std::max(most, CpuSet::of_process(process).count());
    // "PID (NAME) STATE PARENT ...", and a name may have parentheses.
    std::ifstream file("/proc/" + std::to_string(process) + "/stat");
    std::string text;
    std::getline(file, text);
    std::istringstream rest(text.substr(std::min(text.rfind(')') + 1, text.size())));
    char state = 0;
    process = 0;
    rest >> state >> process;
  }
  return most;
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

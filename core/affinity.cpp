#include "core/affinity.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
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

namespace {

std::string text_of(int process, const char* file) {
  std::ifstream stream("/proc/" + std::to_string(process) + "/" + file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// 0: not known.
int parent_of(int process) {
  const std::string text = text_of(process, "stat");  // "PID (NAME) STATE PARENT ...", and a name may have parentheses
  std::istringstream rest(text.substr(std::min(text.rfind(')') + 1, text.size())));
  char state = 0;
  int parent = 0;
  rest >> state >> parent;
  return parent;
}

}  // namespace

int cpus_of_ancestor_without(const std::string& name) {
  for (int process = getppid(); process > 0; process = parent_of(process)) {
    const std::string environment = '\0' + text_of(process, "environ");
    if (environment.find('\0' + name + '=') == std::string::npos) return CpuSet::of_process(process).count();
  }
  return 0;
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

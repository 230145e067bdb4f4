#include "core/fault_moment.h"

#ifdef L2L_FAULT_POINTS

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "core/activity.h"

namespace l2l {
namespace {

std::atomic<bool> hangs{false}, kills{false};
std::atomic<long long> left{0};  // moments; 0 or below: not armed, or past
std::string thread_name;         // how the name of a thread begins that counts; constant while armed

bool arm_from_environment() {
  const char* const text = std::getenv("L2L_FAULT_MOMENT");
  if (text != nullptr) arm_fault_moment(text);
  return text != nullptr;
}

bool counts(const ThreadSlot& thread) {
  for (std::size_t i = 0; i < thread_name.size(); ++i) {
    if (i == ThreadSlot::kName || thread.name[i].load(std::memory_order_relaxed) != thread_name[i]) return false;
  }
  return true;
}

}  // namespace

void arm_fault_moment(const std::string& text) {
  left = 0;
  const std::size_t first = text.find(':');
  if (first == std::string::npos) return;
  const std::size_t second = text.find(':', first + 1);
  hangs = text.starts_with("hang");
  kills = text.starts_with("kill");
  thread_name = second == std::string::npos ? "" : text.substr(second + 1);
  left = std::atoll(text.c_str() + first + 1);
}

long long fault_moments_left() { return left; }

void fault_moment(const ThreadSlot& thread) {
  static const bool from_environment = arm_from_environment();
  static_cast<void>(from_environment);
  if (left.load(std::memory_order_relaxed) <= 0 || !counts(thread) || left.fetch_sub(1) != 1) return;
  if (kills.load()) std::raise(SIGKILL);
  while (hangs.load()) pause();
  throw std::runtime_error("injected: it died at its fault moment");
}

}  // namespace l2l

#endif

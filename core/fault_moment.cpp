#include "core/fault_moment.h"

#ifdef L2L_FAULT_POINTS

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#include "core/activity.h"

namespace l2l {
namespace {

std::atomic<bool> hangs{false}, kills{false};
std::atomic<long long> left{0};  // moments; 0 or below: not armed, or past
std::string thread_name;         // how the name of a thread begins that counts; constant once armed

bool arm_from_environment() {
  const char* const text = std::getenv("L2L_FAULT_MOMENT");
  if (text == nullptr) return false;
  const char* const colon = std::strchr(text, ':');
  if (colon == nullptr) return false;
  hangs = std::strncmp(text, "hang", 4) == 0;
  kills = std::strncmp(text, "kill", 4) == 0;
  if (const char* const second = std::strchr(colon + 1, ':')) thread_name = second + 1;
  left = std::atoll(colon + 1);
  return true;
}

bool counts(const ThreadSlot& thread) {
  for (std::size_t i = 0; i < thread_name.size(); ++i) {
    if (i == ThreadSlot::kName || thread.name[i].load(std::memory_order_relaxed) != thread_name[i]) return false;
  }
  return true;
}

}  // namespace

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

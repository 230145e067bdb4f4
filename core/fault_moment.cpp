#include "core/fault_moment.h"

#ifdef L2L_FAULT_POINTS

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace l2l {
namespace {

std::atomic<bool> hangs{false};
std::atomic<long long> left{0};  // moments; 0 or below: not armed, or past

bool arm_from_environment() {
  const char* const text = std::getenv("L2L_FAULT_MOMENT");
  if (text == nullptr) return false;
  const char* const colon = std::strchr(text, ':');
  if (colon == nullptr) return false;
  hangs = std::strncmp(text, "hang", 4) == 0;
  left = std::atoll(colon + 1);
  return true;
}

}  // namespace

void fault_moment() {
  static const bool from_environment = arm_from_environment();
  static_cast<void>(from_environment);
  if (left.load(std::memory_order_relaxed) <= 0 || left.fetch_sub(1) != 1) return;
  while (hangs.load()) pause();
  throw std::runtime_error("injected: it died at its fault moment");
}

}  // namespace l2l

#endif

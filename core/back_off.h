// Waiting for what only asking can tell.
#pragma once

#include <chrono>
#include <thread>

namespace l2l {

// After the question was asked `times` times before, from 0 on: lets other threads run at first, then sleeps.
inline void back_off(int times, std::chrono::microseconds pause = std::chrono::microseconds(20)) {
  constexpr int kWithoutSleep = 100;
  times < kWithoutSleep ? std::this_thread::yield() : std::this_thread::sleep_for(pause);
}

}  // namespace l2l

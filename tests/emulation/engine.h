// Runs the threads of a CUDA grid on the CPU: one block after the other, each thread a fiber that runs until it waits
// for its warp or its block. The order in which threads and blocks take their turns is a choice (Order): a kernel whose
// result depends on it has a race, and one that waits where it must not is told so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

#include <vector_types.h>

namespace l2l::emulation {

// A kernel broke a rule of CUDA: the message names kernel, block and warp.
class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline constexpr int kWarp = 32;
inline constexpr std::size_t kSlotBytes = 256;  // what a lane can give to a warp's exchange

// 0: ascending, 1: descending, others: shuffled anew at each turn, from this seed.
using Order = std::uint32_t;

struct Grid {
  const void* kernel = nullptr;  // where its code lies: tells its name, and whose static shared memory to poison
  dim3 grid, block;
  std::size_t shared_bytes = 0;  // dynamic
};

// Runs `thread` once per thread of the grid, on the calling OS thread. Shared memory is poisoned (0xFF) at the start of
// each block. Throws Fault.
void run_grid(const Grid& grid, const std::function<void()>& thread, Order order);

// For code that runs inside run_grid. Thread-bound.
void* dynamic_shared_memory();
// Waits for all threads of the block; where: "__syncthreads".
void wait_for_block(const char* where);
// What the 32 lanes of a warp gave, of lane L at L * kSlotBytes; valid until this lane's next exchange but one. Waits
// for all 32 lanes; all must come with the same `where` and `bytes` (at most kSlotBytes).
const std::byte* warp_exchange(const char* where, const void* value, std::size_t bytes);
// Ends the grid with a Fault, from where no exception may be thrown. What the thread holds is leaked.
[[noreturn]] void abandon(const std::string& what);
template <typename T>
T of_lane(const std::byte* slots, int lane) {
  T value;
  __builtin_memcpy(&value, slots + static_cast<std::size_t>(lane) * kSlotBytes, sizeof value);
  return value;
}

}  // namespace l2l::emulation

// Of the thread of a grid that is running. The model of thread-local storage that takes no call, since kernels read
// them everywhere.
extern __thread uint3 threadIdx __attribute__((tls_model("initial-exec"))),
    blockIdx __attribute__((tls_model("initial-exec"))), blockDim __attribute__((tls_model("initial-exec"))),
    gridDim __attribute__((tls_model("initial-exec")));

namespace l2l::emulation {

extern __thread int lane_of_thread __attribute__((tls_model("initial-exec")));
// Of the calling thread within its warp.
inline int lane() { return lane_of_thread; }

}  // namespace l2l::emulation

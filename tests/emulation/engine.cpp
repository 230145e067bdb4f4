#include "tests/emulation/engine.h"

#include <algorithm>
#include <boost/context/fiber.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "tests/emulation/async_copies.h"
#include "tests/emulation/stacks.h"
#include "tests/emulation/static_shared.h"
#include "tests/emulation/symbol_name.h"

__thread uint3 threadIdx, blockIdx, blockDim, gridDim;

namespace l2l::emulation {

__thread int lane_of_thread;

namespace {

namespace context = boost::context;

constexpr std::size_t kMaximumThreads = 1024, kSharedGuard = 256;
constexpr unsigned char kPoison = 0xFF, kGuardByte = 0xA5;

enum class State { ready, at_barrier, at_exchange, done };

struct Lane {
  context::fiber fiber, scheduler;
  State state = State::ready;
  uint3 index{};
  std::size_t number = 0;  // within the block
  const char* where = "";
  std::size_t bytes = 0;
  int turn = 0;  // which half of the warp's slots comes next
  std::exception_ptr error;
  bool abandoned = false;  // its fiber never ends
};

struct alignas(64) Slots {
  std::byte bytes[2][kWarp][kSlotBytes];
};

struct Block {
  std::vector<Lane> lanes;
  std::vector<Slots> slots;  // of each warp
  std::vector<uint4> shared;

  std::size_t warps() const { return slots.size(); }
};

__thread Lane* current __attribute__((tls_model("initial-exec"))) = nullptr;
__thread Block* current_block __attribute__((tls_model("initial-exec"))) = nullptr;

Lane& current_lane() {
  if (!current) throw Fault("device code runs outside of a kernel");
  return *current;
}

// Hands out permutations.
class Turns {
 public:
  explicit Turns(Order order) : order_(order), random_(order) {}
  // Of [begin, end); valid until the next call on this object.
  const std::vector<std::size_t>& of(std::size_t begin, std::size_t end) {
    turns_.resize(end - begin);
    std::iota(turns_.begin(), turns_.end(), begin);
    if (order_ == 1) std::reverse(turns_.begin(), turns_.end());
    if (order_ > 1) std::shuffle(turns_.begin(), turns_.end(), random_);
    return turns_;
  }

 private:
  Order order_;
  std::mt19937 random_;
  std::vector<std::size_t> turns_;
};

std::string to_string(uint3 index) {
  return "(" + std::to_string(index.x) + ", " + std::to_string(index.y) + ", " + std::to_string(index.z) + ")";
}

void suspend(State state) {
  Lane& lane = current_lane();
  lane.state = state;
  lane.scheduler = std::move(lane.scheduler).resume();
}

// Runs one grid. Thread-bound.
class GridRun {
 public:
  GridRun(const Grid& grid, const std::function<void()>& thread, Order order)
      : grid_(grid), thread_(thread), blocks_(order), warps_(order), lanes_(order), poison_(grid.kernel) {
    block_.lanes.resize(std::size_t{grid.block.x} * grid.block.y * grid.block.z);
    block_.slots.resize((block_.lanes.size() + kWarp - 1) / kWarp);
    block_.shared.resize((grid.shared_bytes + sizeof(uint4) - 1) / sizeof(uint4) + kSharedGuard / sizeof(uint4));
  }

  void run() {
    const std::size_t count = std::size_t{grid_.grid.x} * grid_.grid.y * grid_.grid.z;
    for (const std::size_t block : blocks_.of(0, count)) run_block(block);
  }

 private:
  void run_block(std::size_t number) {
    const unsigned int x = grid_.grid.x, y = grid_.grid.y;
    index_ = {static_cast<unsigned int>(number % x), static_cast<unsigned int>(number / x % y),
              static_cast<unsigned int>(number / x / y)};
    prepare_shared_memory();
    blockIdx = index_;
    blockDim = {grid_.block.x, grid_.block.y, grid_.block.z};
    gridDim = {grid_.grid.x, grid_.grid.y, grid_.grid.z};
    for (std::size_t i = 0; i < block_.lanes.size(); ++i) start(i);
    AsyncCopies::drop_all(block_.lanes.size());  // of a kernel that broke off
    current_block = &block_;
    while (advance()) {
    }
    current_block = nullptr;
    check_shared_memory();
    if (AsyncCopies::drop_all(block_.lanes.size())) fail("ended with asynchronous copies that it never waited for");
  }

  void prepare_shared_memory() {
    auto* const memory = reinterpret_cast<unsigned char*>(block_.shared.data());
    std::memset(memory, kPoison, grid_.shared_bytes);
    std::memset(memory + grid_.shared_bytes, kGuardByte, kSharedGuard);
    poison_.apply(kPoison);
  }

  void check_shared_memory() const {
    const auto* const guard = reinterpret_cast<const unsigned char*>(block_.shared.data()) + grid_.shared_bytes;
    if (std::any_of(guard, guard + kSharedGuard, [](unsigned char byte) { return byte != kGuardByte; })) {
      fail("wrote behind its " + std::to_string(grid_.shared_bytes) + " bytes of dynamic shared memory");
    }
  }

  void start(std::size_t number) {
    static thread_local ThreadStacks stacks(kMaximumThreads);
    Lane& lane = block_.lanes[number];
    const unsigned int x = grid_.block.x, y = grid_.block.y;
    lane = Lane{};
    lane.number = number;
    lane.index = {static_cast<unsigned int>(number % x), static_cast<unsigned int>(number / x % y),
                  static_cast<unsigned int>(number / x / y)};
    lane.fiber = context::fiber(std::allocator_arg, StackAllocator{stacks.at(number)},
                                [this, &lane](context::fiber&& scheduler) { return live(lane, std::move(scheduler)); });
  }

  context::fiber live(Lane& lane, context::fiber&& scheduler) const {
    lane.scheduler = std::move(scheduler);
    try {
      thread_();
    } catch (const context::detail::forced_unwind&) {
      throw;
    } catch (...) {
      lane.error = std::current_exception();
    }
    lane.state = State::done;
    return std::move(lane.scheduler);
  }

  // Runs all warps up to the next barrier. False when all threads have ended.
  bool advance() {
    for (const std::size_t warp : warps_.of(0, block_.warps())) run_warp(warp);
    const auto ended = std::count_if(block_.lanes.begin(), block_.lanes.end(),
                                     [](const Lane& lane) { return lane.state == State::done; });
    if (static_cast<std::size_t>(ended) == block_.lanes.size()) return false;
    if (ended > 0) {
      fail("divergent barrier: " + std::to_string(ended) + " of " + std::to_string(block_.lanes.size()) +
           " threads have ended while the others wait at __syncthreads");
    }
    for (Lane& lane : block_.lanes) lane.state = State::ready;
    return true;
  }

  void run_warp(std::size_t warp) {
    const std::size_t begin = warp * kWarp, end = std::min(begin + kWarp, block_.lanes.size());
    do {
      for (const std::size_t lane : lanes_.of(begin, end)) resume(block_.lanes[lane]);
    } while (release_exchange(warp, begin, end));
  }

  void resume(Lane& lane) const {
    if (lane.state != State::ready) return;
    current = &lane;
    threadIdx = lane.index;
    lane_of_thread = static_cast<int>(lane.number % kWarp);
    lane.fiber = std::move(lane.fiber).resume();
    current = nullptr;
    if (lane.abandoned) new context::fiber(std::move(lane.fiber));  // ending it would unwind its stack
    if (!lane.error) return;
    try {
      std::rethrow_exception(lane.error);
    } catch (const std::exception& error) {
      fail("thread " + to_string(lane.index) + ": " + error.what());
    }
  }

  // Whether the warp met in an exchange and goes on. All its lanes must be in the same one.
  bool release_exchange(std::size_t warp, std::size_t begin, std::size_t end) {
    const Lane* waiting = nullptr;
    for (std::size_t i = begin; i < end; ++i) {
      if (block_.lanes[i].state == State::at_exchange) waiting = &block_.lanes[i];
    }
    if (!waiting) return false;
    for (std::size_t i = begin; i < end; ++i) {
      const Lane& lane = block_.lanes[i];
      const bool same = lane.where == waiting->where || !std::strcmp(lane.where, waiting->where);
      const bool together = lane.state == State::at_exchange && same && lane.bytes == waiting->bytes;
      if (together) continue;
      const char* const other = lane.state == State::done ? "has ended" : lane.where;
      fail("divergent warp " + std::to_string(warp) + ": lane " + std::to_string(waiting->number - begin) + " is in " +
           waiting->where + " (" + std::to_string(waiting->bytes) + " bytes), lane " + std::to_string(i - begin) +
           (lane.state == State::done ? " " : " is in ") + other);
    }
    for (std::size_t i = begin; i < end; ++i) block_.lanes[i].state = State::ready;
    return true;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Fault("kernel " + symbol_name(grid_.kernel) + ", block " + to_string(index_) + ": " + what);
  }

  const Grid& grid_;
  const std::function<void()>& thread_;
  Turns blocks_, warps_, lanes_;
  StaticShared poison_;
  uint3 index_{};
  Block block_;
};

}  // namespace

void run_grid(const Grid& grid, const std::function<void()>& thread, Order order) {
  GridRun(grid, thread, order).run();
}

void abandon(const std::string& what) {
  if (!current) {
    std::fprintf(stderr, "%s\n", what.c_str());
    std::abort();
  }
  current->error = std::make_exception_ptr(Fault(what));
  current->abandoned = true;
  suspend(State::done);
  std::abort();
}

void* dynamic_shared_memory() {
  current_lane();
  return current_block->shared.data();
}

void wait_for_block(const char* where) {
  current_lane().where = where;
  suspend(State::at_barrier);
}

const std::byte* warp_exchange(const char* where, const void* value, std::size_t bytes) {
  Lane& lane = current_lane();
  if (bytes > kSlotBytes) throw Fault(std::string(where) + ": more bytes than a slot has");
  if (lane.number / kWarp * kWarp + kWarp > current_block->lanes.size()) {
    throw Fault(std::string(where) + " in a warp of less than 32 threads");
  }
  auto& slots = current_block->slots[lane.number / kWarp].bytes[lane.turn];
  lane.turn = 1 - lane.turn;
  if (bytes > 0) std::memcpy(slots[lane.number % kWarp], value, bytes);
  lane.where = where;
  lane.bytes = bytes;
  suspend(State::at_exchange);
  return slots[0];
}

}  // namespace l2l::emulation

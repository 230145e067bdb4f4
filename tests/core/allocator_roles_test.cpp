// Memory by role, as jemalloc counts it with the settings of the tools.
#include "core/allocator_roles.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "core/bytes.h"
#include "core/host_memory.h"
#include "l2l/allocator.h"

namespace l2l {
namespace {

using Block = std::unique_ptr<char[]>;

constexpr std::int64_t kNoise = 4 * kKiB;  // what the test itself allocates

AllocatorRole use_of(const std::string& name) {
  const AllocatorUse use = allocator_use().value();
  return *std::ranges::find(use.roles, name, &AllocatorRole::name);
}

// By which each role grows while `work` runs: engine, planning, text, staging.
std::vector<std::int64_t> growth(const std::function<void()>& work) {
  std::vector<std::int64_t> grown;
  const AllocatorUse before = allocator_use().value();
  work();
  const AllocatorUse after = allocator_use().value();
  for (std::size_t i = 0; i < after.roles.size(); ++i) {
    grown.push_back(static_cast<std::int64_t>(after.roles[i].allocated - before.roles[i].allocated));
  }
  return grown;
}

// `count` blocks of `bytes`, every page of them touched.
std::vector<Block> blocks(std::size_t count, std::size_t bytes) {
  std::vector<Block> all;
  for (std::size_t i = 0; i < count; ++i) {
    all.push_back(std::make_unique<char[]>(bytes));
    std::memset(all.back().get(), 1, bytes);
  }
  return all;
}

void expect_grown(const std::vector<std::int64_t>& grown, const std::vector<std::int64_t>& expected) {
  ASSERT_EQ(grown.size(), expected.size());
  for (std::size_t i = 0; i < grown.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(grown[i]), static_cast<double>(expected[i]), kNoise) << i;
  }
}

TEST(AllocatorRoles, AreNamed) {
  const AllocatorUse use = allocator_use().value();
  EXPECT_TRUE(use.allocator.starts_with("jemalloc 5.")) << use.allocator;
  std::string names;
  for (const AllocatorRole& role : use.roles) names += role.name + " ";
  EXPECT_EQ(names, "engine planning text staging ");
}

TEST(AllocatorRoles, EachHasWhatItsScopeAllocates) {
  constexpr std::int64_t kSmall = 4000 * 112, kLarge = kMiB;  // of 100 bytes: the size class of 112
  std::vector<Block> small, large;
  const auto allocate = [&] {
    small = blocks(4000, 100);
    large = blocks(1, kLarge);
  };
  const std::int64_t all = kSmall + kLarge + 4096 * sizeof(Block);
  for (int role = 0; role < 4; ++role) {
    std::vector<std::int64_t> expected(4);
    expected[static_cast<std::size_t>(role)] = all;
    expect_grown(growth([&] {
                   const RoleScope scope(static_cast<MemoryRole>(role));
                   allocate();
                 }),
                 expected);
    // Here the scope has ended, and the role loses what it had.
    expected[static_cast<std::size_t>(role)] = -all;
    expect_grown(growth([&] {
                   std::vector<Block>().swap(small);
                   std::vector<Block>().swap(large);
                 }),
                 expected);
  }
}

TEST(AllocatorRoles, ScopesAreNested) {
  std::vector<Block> kept[3];
  const std::vector<std::int64_t> grown = growth([&] {
    const RoleScope outer(MemoryRole::planning);
    {
      const RoleScope inner(MemoryRole::text);
      kept[0] = blocks(1, kMiB);
      const RoleScope same(MemoryRole::text);
      kept[1] = blocks(1, kMiB);
    }
    kept[2] = blocks(1, kMiB);
  });
  expect_grown(grown, {0, kMiB, 2 * kMiB, 0});
}

// A thread keeps what it frees for its next calls: not across the ends of a scope.
TEST(AllocatorRoles, NothingThatARoleFreedIsHandedOutInAnother) {
  std::vector<Block> kept;
  expect_grown(growth([&] {
                 {
                   const RoleScope scope(MemoryRole::text);
                   blocks(200, 700);
                 }
                 kept = blocks(200, 700);
               }),
               {200 * 768 + 256 * sizeof(Block), 0, 0, 0});
}

TEST(AllocatorRoles, ThreadsBeginInTheEngines) {
  std::vector<Block> kept;
  expect_grown(growth([&] {
                 const RoleScope scope(MemoryRole::staging);
                 std::thread([&] { kept = blocks(1, kMiB); }).join();
               }),
               {kMiB, 0, 0, 0});
}

TEST(AllocatorRoles, FreePagesCanBeReturnedAtOnce) {
  const RoleScope scope(MemoryRole::text);  // which a thread keeps: leaving an arena alone would return all of it
  blocks(6, kMiB);
  EXPECT_GT(use_of("text").resident, 4 * kMiB);
  // jemalloc skips an arena that its background thread is purging at that moment: hence more than one try. That thread
  // alone takes most of a second (dirty_decay_ms of the tools).
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  do {
    release_free_memory();
  } while (use_of("text").resident >= kMiB && std::chrono::steady_clock::now() < give_up);
  EXPECT_LT(use_of("text").resident, kMiB);
}

TEST(AllocatorRoles, WhatStagesKeepsNoFreePages) {
  const RoleScope scope(MemoryRole::staging);
  blocks(6, kMiB);
  EXPECT_LT(use_of("staging").resident, kMiB);
}

// Pages that the process holds, read without a call of malloc().
std::int64_t resident_pages() {
  char text[128] = {};
  const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  EXPECT_GT(read(file, text, sizeof text - 1), 0);
  close(file);
  const char* const second = std::strchr(text, ' ');
  return second == nullptr ? 0 : std::strtol(second, nullptr, 10);
}

// Nobody allocates meanwhile, as between the steps of a run.
TEST(AllocatorRoles, FreePagesAreReturnedInTime) {
  const std::int64_t freed = 60 * static_cast<std::int64_t>(kMiB) / sysconf(_SC_PAGESIZE);
  const RoleScope scope(MemoryRole::text);
  std::vector<Block> kept = blocks(64, kMiB);
  const std::int64_t full = resident_pages();
  kept.clear();
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (resident_pages() > full - freed && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_LE(resident_pages(), full - freed);
}

}  // namespace
}  // namespace l2l

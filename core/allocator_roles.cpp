#include "core/allocator_roles.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <new>
#include <string>
#include <string_view>

#include "l2l/allocator.h"

namespace l2l {
namespace {

constexpr std::array<const char*, 4> kNames = {"engine", "planning", "text", "staging"};  // of MemoryRole
constexpr unsigned int kAllArenas = 4096;                                                 // MALLCTL_ARENAS_ALL

thread_local MemoryRole role_of_thread = MemoryRole::engine;

// jemalloc of the process and an arena of it for each role but the engine's. Immutable.
class Jemalloc {
 public:
  Jemalloc() : control_(reinterpret_cast<Control>(dlsym(RTLD_DEFAULT, "mallctl"))) {
    is_malloc_ = control_ != nullptr && counts_new();
    for (std::size_t role = 1; role < kNames.size() && is_malloc_; ++role) {
      is_malloc_ = read("arenas.create", arenas_[role]);
    }
    if (is_malloc_) keep_nothing_free(arena(MemoryRole::staging));
  }

  // Whether it serves this process, and keeps statistics.
  bool is_malloc() const { return is_malloc_; }
  unsigned int arena(MemoryRole role) const { return arenas_[static_cast<std::size_t>(role)]; }

  template <typename T>
  bool read(const std::string& name, T& value) const {
    std::size_t size = sizeof value;
    return control_(name.c_str(), &value, &size, nullptr, 0) == 0 && size == sizeof value;
  }
  void act(const std::string& name) const { control_(name.c_str(), nullptr, nullptr, nullptr, 0); }
  // From now on what this thread allocates comes from `arena`; returns the one before.
  unsigned int enter(unsigned int arena) const {
    act("thread.tcache.flush");  // else the cache would still hand out memory of the arena before
    unsigned int before = arena;
    std::size_t size = sizeof before;
    control_("thread.arena", &before, &size, &arena, sizeof arena);
    return before;
  }
  // But for what caches of other threads hold: as free, of the arenas of these threads.
  void bring_statistics_up_to_date() const {
    act("thread.tcache.flush");
    std::uint64_t epoch = 1;
    control_("epoch", nullptr, nullptr, &epoch, sizeof epoch);
  }

 private:
  // Pages that hold nothing go back to the system at once: what is staged is large, and it is not for long.
  void keep_nothing_free(unsigned int arena) const {
    std::ptrdiff_t at_once = 0;
    for (const char* const kind : {"dirty", "muzzy"}) {
      const std::string name = "arena." + std::to_string(arena) + "." + kind + "_decay_ms";
      control_(name.c_str(), nullptr, nullptr, &at_once, sizeof at_once);
    }
  }

  using Control = int (*)(const char* name, void* old_value, std::size_t* old_size, void* new_value,
                          std::size_t new_size);

  // Another allocator may come before it in the process, which is then the one that counts.
  bool counts_new() const {
    std::uint64_t before = 0, after = 0;
    if (!read("thread.allocated", before)) return false;
    ::operator delete(::operator new(64));
    return read("thread.allocated", after) && after > before;
  }

  const Control control_;
  bool is_malloc_ = false;
  std::array<unsigned int, kNames.size()> arenas_{};
};

const Jemalloc& jemalloc() {
  static const Jemalloc instance;
  return instance;
}

struct Use {
  std::uint64_t allocated = 0, resident = 0;
};

Use use_of(unsigned int arena) {
  const auto read = [&](const char* field) {
    std::size_t value = 0;
    jemalloc().read("stats.arenas." + std::to_string(arena) + "." + field, value);
    return value;
  };
  const std::size_t given = read("small.allocated") + read("large.allocated"), cached = read("tcache_bytes");
  const std::size_t resident = read("resident"), own = read("base");  // what it needs itself, most of it never touched
  return {given - std::min(cached, given), resident - std::min(own, resident)};
}

}  // namespace

RoleScope::RoleScope(MemoryRole role) : outer_(role_of_thread) {
  if (role == outer_ || !jemalloc().is_malloc()) return;
  outer_arena_ = jemalloc().enter(jemalloc().arena(role));
  role_of_thread = role;
}

RoleScope::~RoleScope() {
  if (role_of_thread == outer_) return;
  jemalloc().enter(outer_arena_);
  role_of_thread = outer_;
}

void purge_arenas() {
  if (!jemalloc().is_malloc()) return;
  jemalloc().act("thread.tcache.flush");
  jemalloc().act("arena." + std::to_string(kAllArenas) + ".purge");
}

std::optional<AllocatorUse> allocator_use() {
  const char* version = nullptr;
  if (!jemalloc().is_malloc() || !jemalloc().read("version", version)) return std::nullopt;
  jemalloc().bring_statistics_up_to_date();
  const std::string_view text = version;  // "5.3.0-0-g54eaed1d8b56"
  AllocatorUse all{"jemalloc " + std::string(text.substr(0, text.find('-'))), {}};
  Use rest = use_of(kAllArenas);
  for (std::size_t role = 0; role < kNames.size(); ++role) {
    const Use use = role == 0 ? Use{} : use_of(jemalloc().arena(static_cast<MemoryRole>(role)));
    rest.allocated -= std::min(use.allocated, rest.allocated);
    rest.resident -= std::min(use.resident, rest.resident);
    all.roles.push_back({kNames[role], use.allocated, use.resident});
  }
  all.roles.front().allocated = rest.allocated;
  all.roles.front().resident = rest.resident;
  return all;
}

}  // namespace l2l

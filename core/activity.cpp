#include "core/activity.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "core/fault_moment.h"
#include "l2l/errors.h"

namespace l2l {
namespace {

constexpr std::size_t kSlots = 1024;
ThreadSlot table[kSlots];
std::atomic<std::size_t> high_water{0};  // places that were ever used
thread_local ThreadSlot* current = nullptr;

constexpr auto kRelaxed = std::memory_order_relaxed;

void set_name(ThreadSlot& slot, std::string_view name, int index) {
  char digits[16] = {};
  std::size_t count = 0;
  for (int rest = index; index >= 0 && (rest > 0 || count == 0); rest /= 10) {
    digits[count++] = static_cast<char>('0' + rest % 10);
  }
  const std::size_t suffix = count == 0 ? 0 : count + 1, most = ThreadSlot::kName - 1 - suffix;
  std::size_t length = std::min(name.size(), most);
  for (std::size_t i = 0; i < length; ++i) slot.name[i].store(name[i], kRelaxed);
  if (count > 0) slot.name[length++].store(' ', kRelaxed);
  while (count > 0) slot.name[length++].store(digits[--count], kRelaxed);
  slot.name[length].store('\0', kRelaxed);
}

std::string name_of(const ThreadSlot& slot) {
  std::string name;
  for (const std::atomic<char>& letter : slot.name) {
    const char c = letter.load(kRelaxed);
    if (c == '\0') break;
    name += c;
  }
  return name;
}

ThreadSlot* take_slot() {
  for (std::size_t i = 0; i < kSlots; ++i) {
    bool free = false;
    if (!table[i].used.load(kRelaxed) && table[i].used.compare_exchange_strong(free, true)) {
      std::size_t seen = high_water.load(kRelaxed);
      while (seen < i + 1 && !high_water.compare_exchange_weak(seen, i + 1)) {
      }
      return &table[i];
    }
  }
  return nullptr;
}

void advance(ThreadSlot& slot) { slot.moments.store(slot.moments.load(kRelaxed) + 1, std::memory_order_release); }

}  // namespace

bool list_thread(std::string_view name, int index) {
  if (current != nullptr) return false;
  ThreadSlot* const slot = take_slot();
  if (slot == nullptr) return false;
  set_name(*slot, name, index);
  slot->doing.store(Doing::acts, kRelaxed);
  slot->what.store(nullptr, kRelaxed);
  slot->layer.store(-1, kRelaxed);
  slot->thread.store(static_cast<int>(gettid()), kRelaxed);
  advance(*slot);
  current = slot;
  return true;
}

void unlist_thread() {
  if (current == nullptr) return;
  current->used.store(false, std::memory_order_release);
  current = nullptr;
}

bool waits(Doing doing) { return doing == Doing::rests || doing == Doing::ranks; }

ActivitySpan::ActivitySpan(Doing doing, const char* what, int layer) {
  if (current == nullptr) return;
  if (!waits(doing)) fault_moment(*current);
  doing_ = current->doing.load(kRelaxed);
  if (doing == Doing::rests && waits(doing_)) return;
  slot_ = current;
  what_ = slot_->what.load(kRelaxed);
  layer_ = slot_->layer.load(kRelaxed);
  slot_->doing.store(doing, kRelaxed);
  slot_->what.store(what, kRelaxed);
  slot_->layer.store(layer, kRelaxed);
  advance(*slot_);
}

ActivitySpan::~ActivitySpan() {
  if (slot_ == nullptr || slot_ != current) return;
  slot_->doing.store(doing_, kRelaxed);
  slot_->what.store(what_, kRelaxed);
  slot_->layer.store(layer_, kRelaxed);
  advance(*slot_);
}

void note_progress() {
  if (current == nullptr) return;
  fault_moment(*current);
  advance(*current);
}

std::vector<ThreadState> thread_states() {
  std::vector<ThreadState> all;
  for (std::size_t i = 0; i < std::min(kSlots, high_water.load()); ++i) {
    const ThreadSlot& slot = table[i];
    if (!slot.used.load(std::memory_order_acquire)) continue;
    const std::uint64_t moments = slot.moments.load(std::memory_order_acquire);
    const char* const what = slot.what.load(kRelaxed);
    ThreadState state{{},
                      what != nullptr ? what : "",
                      slot.doing.load(kRelaxed),
                      slot.layer.load(kRelaxed),
                      slot.thread.load(kRelaxed),
                      moments,
                      i};
    state.name = name_of(slot);
    all.push_back(std::move(state));
  }
  return all;
}

std::string describe(const ThreadState& state) {
  std::string text = state.name + ": in " + (state.what.empty() ? "its own code" : state.what);
  if (state.layer >= 0) text += " of layer " + std::to_string(state.layer);
  return text;
}

std::string describe_threads() {
  std::string text;
  for (const ThreadState& state : thread_states()) text += describe(state) + "\n";
  return text;
}

std::exception_ptr named_exception(std::string_view name) {
  try {
    throw;
  } catch (const Error&) {
    return std::current_exception();
  } catch (const std::bad_alloc&) {  // known by its type to those who tell it with the limits in force
    return std::current_exception();
  } catch (const std::filesystem::filesystem_error& error) {
    return std::make_exception_ptr(Error("thread \"" + std::string(name) + "\" failed: " + error.what()));
  } catch (const std::system_error& error) {
    return std::make_exception_ptr(std::system_error(error.code(), "thread \"" + std::string(name) + "\" failed"));
  } catch (const std::exception& error) {
    return std::make_exception_ptr(Error("thread \"" + std::string(name) + "\" failed: " + error.what()));
  } catch (...) {
    return std::make_exception_ptr(Error("thread \"" + std::string(name) + "\" failed with an unknown exception"));
  }
}

std::exception_ptr named_exception() {
  return current != nullptr ? named_exception(name_of(*current)) : std::current_exception();
}

}  // namespace l2l

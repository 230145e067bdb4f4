#include "runtime/read_ahead.h"

#include <new>
#include <utility>

#include "core/activity.h"
#include "core/allocator_roles.h"
#include "core/bytes.h"
#include "core/fault_point.h"

namespace l2l::runtime {

ReadAhead::ReadAhead(MinibatchShape shape, int threads)
    : prepared_(std::move(shape)), workers_("reader", threads), thread_([this] { serve(); }) {}

ReadAhead::~ReadAhead() {
  ask({});
  thread_.join();
}

void ReadAhead::fill(Minibatch& minibatch, const Samples& samples, DrawnFor use, std::uint64_t first) {
  Wanted wanted{&samples, use, first};
  const ActivitySpan span(Doing::rests, "the wait for samples");
  {
    std::unique_lock lock(mutex_);
    const auto is_read = [&] { return state_ != State::asked; };
    changed_.wait(lock, is_read);
    if (state_ == State::idle || wanted_ != wanted) {
      wanted_ = wanted;
      state_ = State::asked;
      changed_.notify_all();
      changed_.wait(lock, is_read);
    }
    state_ = State::idle;
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }
  minibatch.take(prepared_);
  wanted.first += static_cast<std::uint64_t>(prepared_.shape().samples());
  if (use == DrawnFor::training || wanted.first < samples.windows()) ask(wanted);
}

// Without samples: to end. Waits until nothing is being read.
void ReadAhead::ask(const Wanted& wanted) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return state_ != State::asked; });
  wanted_ = wanted;
  state_ = wanted.samples != nullptr ? State::asked : State::ending;
  changed_.notify_all();
}

void ReadAhead::serve() {
  const RoleScope text(MemoryRole::text);
  const ThreadActivity listed("reader");
  while (true) {
    {
      const ActivitySpan span(Doing::rests, "the wait for work");
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return state_ == State::asked || state_ == State::ending; });
      if (state_ == State::ending) return;
    }
    std::exception_ptr error;
    try {
      read(wanted_);
    } catch (...) {
      error = named_exception();
    }
    const std::lock_guard lock(mutex_);
    error_ = std::move(error);  // whoever rethrows it has the last reference
    state_ = State::done;
    changed_.notify_all();
  }
}

void ReadAhead::read(const Wanted& wanted) {
  const Samples& samples = *wanted.samples;
  if (fault_point("text.leak")) static_cast<void>(::operator new(kKiB));
  const bool trains = wanted.use == DrawnFor::training;
  const auto at = [&](int i) { return wanted.first + static_cast<std::uint64_t>(i); };
  prepared_.fill([&](int i) { return trains ? samples.rows(at(i)) : samples.validation_rows(at(i)); },
                 [&](int i, const SequenceView& sequence) {
                   const ActivitySpan span(Doing::file, "the reading of a sample");
                   trains ? samples.sample(at(i), sequence) : samples.validation_window(at(i), sequence);
                 },
                 workers_);
}

}  // namespace l2l::runtime

#include "eps/checkpoint/checkpoint_writer.h"

#include <chrono>
#include <exception>
#include <string>
#include <utility>

#include "core/activity.h"
#include "core/allocator_roles.h"
#include "core/log.h"
#include "eps/state_save.h"

namespace l2l::eps {

CheckpointWriter::CheckpointWriter(ParameterStore& store, StateGather* gather)
    : store_(store), gather_(gather), thread_([this] { serve(); }) {}

CheckpointWriter::~CheckpointWriter() {
  try {
    finish();
  } catch (const std::exception& error) {
    log(LogLevel::error, std::string("a checkpoint was not written: ") + error.what());
  }
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void CheckpointWriter::serve() {
  const RoleScope staging(MemoryRole::staging);
  const ThreadActivity listed("checkpoint saver");
  std::unique_lock lock(mutex_);
  while (true) {
    {
      const ActivitySpan span(Doing::rests, "the wait for a save");
      changed_.wait(lock, [&] { return next_.valid() || stopping_; });
    }
    if (!next_.valid()) return;
    Save save = std::move(next_);
    next_ = {};
    lock.unlock();
    save();
    lock.lock();
  }
}

void CheckpointWriter::start(const std::filesystem::path& directory, const SavedRun& state, int keep,
                             Companions companions) {
  finish();
  Save save([this, directory, begun = store_.begin_save(), state, keep, companions = std::move(companions)]() mutable {
    // What is captured lives until somebody asks for the result. The save must end here, even where it fails: updates
    // wait for it.
    StateSave ending = std::move(begun);
    try {
      const ActivitySpan span(Doing::file, "writing a checkpoint");
      if (gather_ != nullptr) {
        return save_on_ranks(directory, store_, std::move(ending), state, keep, companions, *gather_);
      }
      return save_checkpoint(directory, store_, std::move(ending), state, keep, companions);
    } catch (...) {
      std::rethrow_exception(named_exception());
    }
  });
  pending_ = save.get_future();
  {
    const std::lock_guard lock(mutex_);
    next_ = std::move(save);
  }
  changed_.notify_all();
}

bool CheckpointWriter::running() const {
  return pending_.valid() && pending_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
}

std::filesystem::path CheckpointWriter::finish() { return pending_.valid() ? pending_.get() : std::filesystem::path(); }

}  // namespace l2l::eps

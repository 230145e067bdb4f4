#include "eps/checkpoint/checkpoint_writer.h"

#include <chrono>
#include <exception>
#include <string>

#include "core/activity.h"
#include "core/log.h"

namespace l2l::eps {

CheckpointWriter::~CheckpointWriter() {
  try {
    finish();
  } catch (const std::exception& error) {
    log(LogLevel::error, std::string("a checkpoint was not written: ") + error.what());
  }
}

void CheckpointWriter::start(const std::filesystem::path& directory, const RunState& state, int keep,
                             Companions companions) {
  finish();
  pending_ = std::async(std::launch::async, [this, directory, save = store_.begin_save(), state, keep,
                                             companions = std::move(companions)]() mutable {
    const ThreadActivity listed("checkpoint saver");
    const ActivitySpan span(Doing::file, "writing a checkpoint");
    return save_checkpoint(directory, store_, std::move(save), state, keep, companions);
  });
}

bool CheckpointWriter::running() const {
  return pending_.valid() && pending_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
}

std::filesystem::path CheckpointWriter::finish() { return pending_.valid() ? pending_.get() : std::filesystem::path(); }

}  // namespace l2l::eps

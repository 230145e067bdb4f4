#include "tests/emulation/stream.h"

#include <algorithm>
#include <random>
#include <thread>

#include "tests/emulation/state.h"

namespace l2l::emulation {
namespace {

// Runs one piece of work unless something failed before.
void run_guarded(const Work& work) {
  if (state().error.status() != cudaSuccess) return;
  try {
    work();
  } catch (const std::exception& error) {
    state().error.set(cudaErrorLaunchFailure, error.what());
  }
}

// How far the clock of this thread's stream is ahead.
thread_local std::chrono::nanoseconds ahead{0};

// Locked before the mutex of a stream.
struct Streams {
  std::mutex mutex;
  std::set<cudaStream_t> all;  // that have a thread; guarded by mutex
};

Streams& streams() {
  static Streams& made = *new Streams();
  return made;
}

}  // namespace

void Moment::pass() {
  {
    const std::lock_guard lock(mutex_);
    passed_ = true;
    when_ = std::chrono::steady_clock::now() + ahead;
  }
  changed_.notify_all();
}

void advance_clock(std::chrono::nanoseconds by) { ahead += by; }

void Moment::wait() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return passed_; });
}

bool Moment::passed() const {
  const std::lock_guard lock(mutex_);
  return passed_;
}

std::chrono::steady_clock::time_point Moment::when() const {
  const std::lock_guard lock(mutex_);
  return when_;
}

std::mutex& capture_mutex() {
  static std::mutex& made = *new std::mutex();
  return made;
}

cudaStream_t stream_of(cudaStream_t stream) {
  static const cudaStream_t fallback = CUstream_st::create();
  return stream != nullptr ? stream : fallback;
}

void wait_for_device() {
  std::vector<std::shared_ptr<Moment>> moments;
  {
    const std::lock_guard lock(streams().mutex);
    for (const cudaStream_t stream : streams().all) moments.push_back(stream->mark());
  }
  for (const auto& moment : moments) moment->wait();
}

cudaError_t enqueue(cudaStream_t handle, Work work) {
  const cudaStream_t stream = stream_of(handle);
  const auto guarded = [work = std::move(work)] { run_guarded(work); };
  const std::lock_guard lock(capture_mutex());
  if (!stream->capture) {
    stream->push(guarded);
    return cudaSuccess;
  }
  Capture& capture = *stream->capture;
  if (capture.spoiled) return cudaErrorStreamCaptureInvalidated;
  capture.works.push_back(guarded);
  if (stream != capture.first) capture.unjoined.insert(stream);
  return cudaSuccess;
}

}  // namespace l2l::emulation

using namespace l2l::emulation;

cudaStream_t CUstream_st::create() {
  auto* const stream = new CUstream_st();
  {
    const std::lock_guard lock(streams().mutex);
    streams().all.insert(stream);
  }
  std::thread([stream] { stream->run(); }).detach();
  return stream;
}

void CUstream_st::retire() {
  const std::lock_guard lock(mutex_);
  retired_ = true;
  changed_.notify_one();  // while locked: this may be gone when the lock is
}

void CUstream_st::push(Work work) {
  const std::lock_guard lock(mutex_);
  works_.push_back(std::move(work));
  changed_.notify_one();
}

std::shared_ptr<Moment> CUstream_st::mark() {
  auto moment = std::make_shared<Moment>();
  push([moment] { moment->pass(); });
  return moment;
}

bool CUstream_st::leave() {
  const std::lock_guard all_lock(streams().mutex);
  const std::lock_guard lock(mutex_);
  if (!works_.empty()) return false;
  streams().all.erase(this);
  return true;
}

void CUstream_st::run() {
  std::mt19937 random(static_cast<unsigned int>(reinterpret_cast<std::uintptr_t>(this) >> 4));
  while (true) {
    Work work;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !works_.empty() || retired_; });
      if (!works_.empty()) {
        work = std::move(works_.front());
        works_.pop_front();
      }
    }
    if (!work) {
      if (leave()) break;
      continue;
    }
    if (const auto most = machine().delay.count(); most > 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(std::uniform_int_distribution<long>(0, most)(random)));
    }
    work();
  }
  delete this;
}

// Messages of MPI. Only what every MPI has is used: counts are int, so that long pieces go in several messages.
#define OMPI_SKIP_MPICXX
#define MPICH_SKIP_MPICXX
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <vector>

#include "collectives/launch.h"
#include "collectives/mpi/module.h"
#include "collectives/transport.h"
#include "core/back_off.h"
#include "l2l/errors.h"

namespace l2l::collectives::mpi {
namespace {

constexpr std::size_t kMessage = std::size_t{1} << 30;  // bytes at most

std::string text_of(int code) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  return {text, static_cast<std::size_t>(length)};
}

void check(int code, const char* call) {
  if (code != MPI_SUCCESS) throw Error(std::string(call) + ": " + text_of(code));
}

[[noreturn]] void end_run(const std::string& reason) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::fprintf(stderr, "rank %d: %s\n", rank, reason.c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

// MPI, which a process can start once: from the first run to the end of the process, or as long as a program has it
// that started it before. Never destroyed: runs may outlive what is static. Threads call MPI in turn, each with the
// lock.
class Mpi {
 public:
  // Throws BadInput where it does not start, and after a failure, which leaves messages under way.
  static Mpi& started() {
    static Mpi* const mpi = new Mpi;
    if (is_abandoned) throw BadInput("an earlier run of this process has failed: start another process");
    return *mpi;
  }
  Mpi(const Mpi&) = delete;
  Mpi& operator=(const Mpi&) = delete;

  static inline std::atomic<bool> is_abandoned{false};  // exchanges are under way that nobody waits for any more
  static inline std::atomic<int> runs{0};               // that use it
  std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }

 private:
  Mpi() {
    int running = 0, ended = 0, threads = MPI_THREAD_SINGLE;
    MPI_Initialized(&running);
    MPI_Finalized(&ended);
    if (ended != 0) throw BadInput("MPI has ended in this process, and cannot be started again");
    if (running != 0) {
      MPI_Query_thread(&threads);
      if (threads == MPI_THREAD_MULTIPLE) return;
      throw BadInput(
          "this program has started MPI without MPI_THREAD_MULTIPLE, which it and the library need together");
    }
    const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &threads);
    if (code != MPI_SUCCESS) throw BadInput("MPI does not start: error " + std::to_string(code));
    if (threads < MPI_THREAD_SERIALIZED) refuse("this MPI cannot be called by several threads in turn");
    int ranks = 1;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const std::optional<Launch> launch = mpi_launch();
    if (ranks > 1 || !launch || launch->processes < 2) {
      std::atexit([] {
        if (!is_abandoned && runs == 0) MPI_Finalize();
      });
      return;
    }
    refuse("the launcher started " + std::to_string(launch->processes) + " processes (" + launch->variable +
           "), but each sees itself alone: use the mpirun of the MPI that L2L was built with, or srun --mpi=pmix");
  }
  [[noreturn]] static void refuse(const std::string& reason) {
    MPI_Finalize();
    throw BadInput(reason);
  }

  std::mutex mutex_;
};

// A run's use of MPI, which its transports and exchanges share.
class World {
 public:
  World() : mpi_(Mpi::started()) { ++Mpi::runs; }
  ~World() {
    --Mpi::runs;
    if (std::uncaught_exceptions() > 0 && !end_is_agreed) end_run("ended by an error");
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  std::atomic<bool> end_is_agreed{false};
  std::unique_lock<std::mutex> lock() { return mpi_.lock(); }
  void abandon_exchanges() { Mpi::is_abandoned = true; }

 private:
  Mpi& mpi_;
};

class MpiExchange final : public Exchange {
 public:
  explicit MpiExchange(std::shared_ptr<World> world) : world_(std::move(world)) {}
  ~MpiExchange() override {
    if (std::all_of(requests_.begin(), requests_.end(), [](MPI_Request r) { return r == MPI_REQUEST_NULL; })) return;
    if (abandoned_) return;
    // The buffers are about to go, or peers will wait in vain.
    if (!failure_.empty()) end_run(failure_);
    if (std::uncaught_exceptions() > exceptions_) end_run("ended by an error");
    try {
      wait();
    } catch (const Error& error) {
      end_run(error.what());
    }
  }

  void start(MPI_Comm comm, int tag, std::span<const Send> sent, std::span<const Receive> received) {
    const auto guard = world_->lock();
    for (const Receive& piece : received) {
      for_each_message(piece.bytes, [&](std::span<std::byte> message) {
        MPI_Request& request = add({piece.from, static_cast<int>(message.size())});
        check(MPI_Irecv(message.data(), pieces_.back().size, MPI_BYTE, piece.from, tag, comm, &request), "MPI_Irecv");
      });
    }
    for (const Send& piece : sent) {
      for_each_message(piece.bytes, [&](std::span<const std::byte> message) {
        MPI_Request& request = add({piece.to, kSent});
        check(MPI_Isend(message.data(), static_cast<int>(message.size()), MPI_BYTE, piece.to, tag, comm, &request),
              "MPI_Isend");
      });
    }
  }
  bool done() override {
    if (!finished_) {
      std::vector<MPI_Status> statuses(requests_.size());
      int all = 0;
      const auto guard = world_->lock();
      const int code = MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &all, statuses.data());
      if (code != MPI_SUCCESS || all != 0) finish(code, statuses);
    }
    rethrow();
    return finished_;
  }
  void abandon() override {
    abandoned_ = true;
    world_->abandon_exchanges();
  }
  // Asks again and again, so that other threads get to call MPI meanwhile.
  void wait() override {
    for (int times = 0; !done(); ++times) back_off(times);
  }

 private:
  static constexpr int kSent = -1;
  struct Piece {
    int peer = 0;
    int size = 0;  // expected; kSent: it is sent
  };

  // An empty piece is a message, too.
  template <typename Byte, typename F>
  static void for_each_message(std::span<Byte> bytes, const F& function) {
    std::size_t at = 0;
    do {
      function(bytes.subspan(at, std::min(kMessage, bytes.size() - at)));
      at += kMessage;
    } while (at < bytes.size());
  }
  MPI_Request& add(Piece piece) {
    pieces_.push_back(piece);
    return requests_.emplace_back(MPI_REQUEST_NULL);
  }
  void rethrow() const {
    if (!failure_.empty()) throw Error(failure_);
  }
  void finish(int code, const std::vector<MPI_Status>& statuses) {
    finished_ = true;
    for (std::size_t i = 0; i < statuses.size() && failure_.empty(); ++i) {
      const Piece& piece = pieces_[i];
      const int status = code == MPI_ERR_IN_STATUS ? statuses[i].MPI_ERROR : MPI_SUCCESS;
      if (status == MPI_ERR_PENDING) continue;
      const std::string peer = "exchange with rank " + std::to_string(piece.peer);
      if (status != MPI_SUCCESS) {
        failure_ =
            peer + (piece.size == kSent ? "" : " of " + std::to_string(piece.size) + " bytes") + ": " + text_of(status);
      } else if (int count = 0; piece.size != kSent && MPI_Get_count(&statuses[i], MPI_BYTE, &count) == MPI_SUCCESS &&
                                count != piece.size) {
        failure_ = peer + ": it sent " + std::to_string(count) + " bytes where " + std::to_string(piece.size) +
                   " were expected";
      }
    }
    if (failure_.empty() && code != MPI_SUCCESS) failure_ = text_of(code);
  }

  const std::shared_ptr<World> world_;
  std::vector<MPI_Request> requests_;
  std::vector<Piece> pieces_;  // by request
  bool finished_ = false, abandoned_ = false;
  std::string failure_;
  const int exceptions_ = std::uncaught_exceptions();
};

class MpiTransport final : public Transport {
 public:
  // Takes `comm`.
  MpiTransport(std::shared_ptr<World> world, MPI_Comm comm) : world_(std::move(world)), comm_(comm) {
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
    const int* most = nullptr;
    int known = 0;
    MPI_Comm_get_attr(comm_, MPI_TAG_UB, &most, &known);
    if (known != 0) channels_ = *most;
    MPI_Comm here = MPI_COMM_NULL;
    MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
    MPI_Comm_size(here, &neighbours_);
    MPI_Comm_free(&here);
  }
  // All ranks free it together, which they will not where one is ended by an error.
  ~MpiTransport() override {
    if (std::uncaught_exceptions() > 0 && !world_->end_is_agreed) return;
    const auto guard = world_->lock();
    MPI_Comm_free(&comm_);
  }
  MpiTransport(const MpiTransport&) = delete;
  MpiTransport& operator=(const MpiTransport&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::unique_ptr<Exchange> start(std::span<const Send> sent, std::span<const Receive> received, int channel) override {
    auto exchange = std::make_unique<MpiExchange>(world_);
    exchange->start(comm_, channel, sent, received);
    return exchange;
  }
  int channels() const override { return channels_; }
  int neighbours() const override { return neighbours_; }
  Bytes buffer_bytes() const override { return mpi_buffer_bytes(neighbours_); }
  std::unique_ptr<Transport> split(int color) override {
    MPI_Comm part = MPI_COMM_NULL;
    const auto guard = world_->lock();
    check(MPI_Comm_split(comm_, color, rank_, &part), "MPI_Comm_split");
    if (part == MPI_COMM_NULL) throw Error("a color is below 0");
    return std::make_unique<MpiTransport>(world_, part);
  }
  void end_is_agreed() override { world_->end_is_agreed = true; }
  void abort(const std::string& reason) override { end_run(reason); }

 private:
  const std::shared_ptr<World> world_;
  MPI_Comm comm_;
  int rank_ = 0, size_ = 1;
  int channels_ = 32767;  // that every MPI has
  int neighbours_ = 1;    // ranks on this machine, this one included
};

Transport* open() {
  auto world = std::make_shared<World>();
  const auto guard = world->lock();  // another run of this process may use it
  MPI_Comm comm = MPI_COMM_NULL;     // apart from other users of MPI in the process
  check(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
  return new MpiTransport(std::move(world), comm);
}

}  // namespace
}  // namespace l2l::collectives::mpi

__attribute__((visibility("default"))) const l2l::collectives::mpi::Module* l2l_mpi_module() {
  static const std::string stamp = l2l::collectives::mpi::module_stamp();
  static const l2l::collectives::mpi::Module module{stamp.c_str(), l2l::collectives::mpi::open};
  return &module;
}

// Messages of MPI. Only what every MPI has is used: counts are int, so that long pieces go in several messages.
#define OMPI_SKIP_MPICXX
#define MPICH_SKIP_MPICXX
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "collectives/mpi/module.h"
#include "collectives/transport.h"
#include "l2l/errors.h"

namespace l2l::collectives::mpi {
namespace {

constexpr std::size_t kMessage = std::size_t{1} << 30;  // bytes at most
constexpr int kTag = 1;

std::string text_of(int code) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  return {text, static_cast<std::size_t>(length)};
}

void check(int code, const char* call) {
  if (code != MPI_SUCCESS) throw Error(std::string(call) + ": " + text_of(code));
}

class MpiExchange final : public Exchange {
 public:
  MpiExchange(MPI_Comm comm, std::span<const Outgoing> sent, std::span<const Incoming> received) {
    for (const Incoming& piece : received) {
      for_each_message(piece.bytes, [&](std::span<std::byte> message) {
        const int count = static_cast<int>(message.size());
        check(MPI_Irecv(message.data(), count, MPI_BYTE, piece.from, kTag, comm, &add(count)), "MPI_Irecv");
      });
    }
    for (const Outgoing& piece : sent) {
      for_each_message(piece.bytes, [&](std::span<const std::byte> message) {
        const int count = static_cast<int>(message.size());
        check(MPI_Isend(message.data(), count, MPI_BYTE, piece.to, kTag, comm, &add(kSent)), "MPI_Isend");
      });
    }
  }
  ~MpiExchange() override {
    if (!finished_) MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
  }

  bool done() override {
    if (finished_) return true;
    std::vector<MPI_Status> statuses(requests_.size());
    int all = 0;
    const int code = MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &all, statuses.data());
    if (code != MPI_SUCCESS || all != 0) finish(code, statuses, "MPI_Testall");
    return finished_;
  }
  void wait() override {
    if (finished_) return;
    std::vector<MPI_Status> statuses(requests_.size());
    const int code = MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), statuses.data());
    finish(code, statuses, "MPI_Waitall");
  }

 private:
  static constexpr int kSent = -1;

  template <typename Byte, typename F>
  static void for_each_message(std::span<Byte> bytes, const F& function) {
    for (std::size_t at = 0; at < bytes.size(); at += kMessage) {
      function(bytes.subspan(at, std::min(kMessage, bytes.size() - at)));
    }
  }
  // A request that is to receive so many bytes, or kSent.
  MPI_Request& add(int expected) {
    expected_.push_back(expected);
    return requests_.emplace_back(MPI_REQUEST_NULL);
  }
  void finish(int code, const std::vector<MPI_Status>& statuses, const char* call) {
    finished_ = true;
    for (std::size_t i = 0; code == MPI_ERR_IN_STATUS && i < statuses.size(); ++i) {
      if (statuses[i].MPI_ERROR != MPI_ERR_PENDING) check(statuses[i].MPI_ERROR, call);
    }
    check(code, call);
    for (std::size_t i = 0; i < statuses.size(); ++i) {
      if (expected_[i] == kSent) continue;
      int count = 0;
      check(MPI_Get_count(&statuses[i], MPI_BYTE, &count), "MPI_Get_count");
      if (count == expected_[i]) continue;
      throw Error("rank " + std::to_string(statuses[i].MPI_SOURCE) + " sent " + std::to_string(count) +
                  " bytes where " + std::to_string(expected_[i]) + " were expected");
    }
  }

  std::vector<MPI_Request> requests_;
  std::vector<int> expected_;  // by request
  bool finished_ = false;
};

class MpiTransport final : public Transport {
 public:
  // `world`: the one that ends MPI.
  MpiTransport(MPI_Comm comm, bool world) : comm_(comm), world_(world) {
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
  }
  ~MpiTransport() override {
    if (world_) {
      MPI_Finalize();
    } else {
      MPI_Comm_free(&comm_);
    }
  }
  MpiTransport(const MpiTransport&) = delete;
  MpiTransport& operator=(const MpiTransport&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::unique_ptr<Exchange> start(std::span<const Outgoing> sent, std::span<const Incoming> received) override {
    return std::make_unique<MpiExchange>(comm_, sent, received);
  }
  std::unique_ptr<Transport> split(int color) override {
    MPI_Comm part = MPI_COMM_NULL;
    check(MPI_Comm_split(comm_, color, rank_, &part), "MPI_Comm_split");
    return std::make_unique<MpiTransport>(part, false);
  }
  void abort(const std::string& reason) override {
    std::fprintf(stderr, "rank %d: %s\n", rank_, reason.c_str());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }

 private:
  MPI_Comm comm_;
  const bool world_;
  int rank_ = 0, size_ = 1;
};

Transport* open() {
  int provided = MPI_THREAD_SINGLE;
  const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
  if (code != MPI_SUCCESS) throw BadInput("MPI does not start: " + text_of(code));
  if (provided < MPI_THREAD_SERIALIZED) throw BadInput("this MPI cannot be called from several threads in turn");
  return new MpiTransport(MPI_COMM_WORLD, true);
}

}  // namespace
}  // namespace l2l::collectives::mpi

__attribute__((visibility("default"))) const l2l::collectives::mpi::Module* l2l_mpi_module() {
  static const std::string stamp = l2l::collectives::mpi::module_stamp();
  static const l2l::collectives::mpi::Module module{stamp.c_str(), l2l::collectives::mpi::open};
  return &module;
}

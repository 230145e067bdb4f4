#include "device/cuda/nccl_library.h"

#include <dlfcn.h>

namespace l2l::device::cuda {
namespace {

constexpr const char* kFile = "libnccl.so.2";
// Calls of earlier versions may wait for the other devices within the call, or leave a job behind in the thread that
// called, which a later call of another thread then joins.
constexpr int kLeastVersion = NCCL_VERSION(2, 23, 0);

struct Opened {
  NcclLibrary functions;
  std::string missing;  // why there is no NCCL; empty: there is
};

Opened open() {
  Opened opened;
  void* const library = dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const error = dlerror();
    opened.missing = "NCCL is not installed (" + std::string(error != nullptr ? error : kFile) + ")";
    return opened;
  }
  const auto find = [&]<typename Function>(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr) opened.missing = std::string(kFile) + " is too old: it has no " + name;
  };
  NcclLibrary& nccl = opened.functions;
  find(nccl.get_version, "ncclGetVersion");
  find(nccl.get_error_string, "ncclGetErrorString");
  find(nccl.get_last_error, "ncclGetLastError");
  find(nccl.get_unique_id, "ncclGetUniqueId");
  find(nccl.group_start, "ncclGroupStart");
  find(nccl.group_end, "ncclGroupEnd");
  find(nccl.comm_init, "ncclCommInitRankConfig");
  find(nccl.comm_get_async_error, "ncclCommGetAsyncError");
  find(nccl.comm_abort, "ncclCommAbort");
  find(nccl.comm_destroy, "ncclCommDestroy");
  find(nccl.all_gather, "ncclAllGather");
  find(nccl.send, "ncclSend");
  find(nccl.receive, "ncclRecv");
  if (!opened.missing.empty()) return opened;
  int version = 0;
  if (nccl.get_version(&version) != ncclSuccess || version < kLeastVersion) {
    opened.missing = std::string(kFile) + " is of version " + nccl_version(version) +
                     ", which is too old: " + nccl_version(kLeastVersion) + " or later is needed";
  }
  return opened;
}

}  // namespace

std::string nccl_version(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

const NcclLibrary* nccl_library(std::string& reason) {
  static const Opened& opened = *new Opened(open());
  reason = opened.missing;
  return opened.missing.empty() ? &opened.functions : nullptr;
}

}  // namespace l2l::device::cuda

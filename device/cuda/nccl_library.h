// NCCL, opened at run time, so that the CUDA module opens on machines without it.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <string>

namespace l2l::device::cuda {

// The functions of its interface that we call.
struct NcclLibrary {
  decltype(&ncclGetVersion) get_version = nullptr;
  decltype(&ncclGetErrorString) get_error_string = nullptr;
  decltype(&ncclGetLastError) get_last_error = nullptr;
  decltype(&ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  decltype(&ncclCommInitRankConfig) comm_init = nullptr;
  decltype(&ncclCommGetAsyncError) comm_get_async_error = nullptr;
  decltype(&ncclCommAbort) comm_abort = nullptr;
  decltype(&ncclCommDestroy) comm_destroy = nullptr;
  decltype(&ncclAllGather) all_gather = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) receive = nullptr;
};

// 22809: "2.28.9".
std::string nccl_version(int version);

// libnccl.so.2, of version 2.23 or later, which stays open until the process ends. nullptr: it is missing or too old,
// as `reason` says. Thread-safe.
const NcclLibrary* nccl_library(std::string& reason);

}  // namespace l2l::device::cuda

// Status codes of the CUDA libraries become exceptions.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <string>

#include "l2l/errors.h"

namespace l2l::device::cuda {

// Throws DeviceError: "WHAT: cudaErrorIllegalAddress (an illegal memory access was encountered)".
inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  throw DeviceError(std::string(what) + ": " + cudaGetErrorName(status) + " (" + cudaGetErrorString(status) + ")");
}

inline void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw DeviceError(std::string(what) + ": " + cublasLtGetStatusName(status));
}

}  // namespace l2l::device::cuda

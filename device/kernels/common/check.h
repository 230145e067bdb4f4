// Status codes of the CUDA libraries become exceptions.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <string>

#include "l2l/errors.h"

namespace l2l::device::cuda {

// "cudaErrorIllegalAddress (an illegal memory access was encountered)"
inline std::string describe(cudaError_t status) {
  return std::string(cudaGetErrorName(status)) + " (" + cudaGetErrorString(status) + ")";
}

// Throws DeviceError: "WHAT: STATUS".
inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw DeviceError(std::string(what) + ": " + describe(status));
}

inline void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) throw DeviceError(std::string(what) + ": " + cublasLtGetStatusName(status));
}

}  // namespace l2l::device::cuda

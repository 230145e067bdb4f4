// Names for profilers (Nsight): a range around each enqueue, and the streams. Costs next to nothing without one.
#pragma once

#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCudaRt.h>

#include <string>

namespace l2l::device::cuda {

class NvtxRange {
 public:
  // `name` ends with a zero.
  explicit NvtxRange(const char* name) { nvtxRangePushA(name); }
  ~NvtxRange() { nvtxRangePop(); }
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;
};

inline void name_stream(cudaStream_t stream, const std::string& name) { nvtxNameCudaStreamA(stream, name.c_str()); }

}  // namespace l2l::device::cuda

// Names for profilers (Nsight): a range around each enqueue, and the streams. Costs next to nothing without one.
//
// A range belongs to the category of its stream. Its payload says where in the step it is: layer 3, microbatch 2 is
// 3000002; layer 3 alone is 3000000.
#pragma once

#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCudaRt.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "device/stream_track.h"

namespace l2l::device::cuda {

class NvtxRange {
 public:
  // `name` ends with a zero; `category` is what name_stream() was given.
  NvtxRange(const char* name, std::uint32_t category, SpanLabel label) {
    nvtxEventAttributes_t attributes{};
    attributes.version = NVTX_VERSION;
    attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    attributes.category = category;
    attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
    attributes.message.ascii = name;
    if (label.layer >= 0) {
      attributes.payloadType = NVTX_PAYLOAD_TYPE_INT64;
      attributes.payload.llValue = std::int64_t{1'000'000} * label.layer + std::max(label.microbatch, 0);
    }
    nvtxRangePushEx(&attributes);
  }
  ~NvtxRange() { nvtxRangePop(); }
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;
};

// `category`: a number of its own for the ranges of this stream, not 0.
inline void name_stream(cudaStream_t stream, std::uint32_t category, const std::string& name) {
  nvtxNameCudaStreamA(stream, name.c_str());
  nvtxNameCategoryA(category, name.c_str());
}

}  // namespace l2l::device::cuda

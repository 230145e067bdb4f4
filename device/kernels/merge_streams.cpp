#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

struct SumOfStreams {
  __attribute__((always_inline)) float operator()(float a, float b) const { return a + b; }
};

}  // namespace

const Factory make_merge_streams = make_for_stream<TwoInputs<SumOfStreams>::OfStream, 0, 2>;

}  // namespace l2l::device::kernels

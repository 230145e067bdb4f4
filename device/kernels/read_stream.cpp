#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

struct Read {
  __attribute__((always_inline)) float operator()(float x) const { return x; }
};

}  // namespace

const Factory make_read_stream = make_for_stream<OneInput<Read>::OfStream, 0, 1>;

}  // namespace l2l::device::kernels

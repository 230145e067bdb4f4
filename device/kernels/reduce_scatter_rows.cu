#include "device/kernels/cuda_factories.h"
#include "l2l/errors.h"

namespace l2l::device::cuda {

// Of a split layer; make_kernel() refuses those.
const Factory make_reduce_scatter_rows = [](const Context&, const OpView&) -> std::unique_ptr<Kernel> {
  throw BadInput("layers are split over devices in host memory only, so far");
};

}  // namespace l2l::device::cuda

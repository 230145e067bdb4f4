// Functions of the host have no counterpart here.
#include "device/kernels/cuda_factories.h"
#include "l2l/custom_op.h"

namespace l2l::device::cuda {
namespace {

std::unique_ptr<Kernel> refuse(const Context&, const OpView& op) {
  throw BadInput("custom op \"" + op.attributes.custom.op->name +
                 "\" is a function of the host: use device.kind = \"host\"");
}

}  // namespace

const Factory make_custom = refuse;
const Factory make_custom_backward = refuse;

}  // namespace l2l::device::cuda

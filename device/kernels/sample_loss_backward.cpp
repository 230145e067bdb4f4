#include "device/kernels/sample_loss.h"

#include "device/kernels/factories.h"

namespace l2l::device::kernels {

const Factory make_sample_loss_backward = make_for_input<SampleLoss<true>::OfType>;

}  // namespace l2l::device::kernels

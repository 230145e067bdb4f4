#include "device/kernels/sample_loss.h"

#include "device/kernels/factories.h"

namespace l2l::device::kernels {

const Factory make_sample_loss = make_for_input<SampleLoss<false>::OfType>;

}  // namespace l2l::device::kernels

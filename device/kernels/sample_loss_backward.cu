#include "device/kernels/cuda_factories.h"
#include "device/kernels/sample_loss.cuh"

namespace l2l::device::cuda {

const Factory make_sample_loss_backward = make_for_input<RowLoss<SampleLoss, true>::OfType>;

}  // namespace l2l::device::cuda

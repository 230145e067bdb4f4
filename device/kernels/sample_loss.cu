#include "device/kernels/cuda_factories.h"
#include "device/kernels/sample_loss.cuh"

namespace l2l::device::cuda {

const Factory make_sample_loss = make_for_input<RowLoss<SampleLoss, false>::OfType>;

}  // namespace l2l::device::cuda

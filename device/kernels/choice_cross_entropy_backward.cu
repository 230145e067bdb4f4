// Counterpart of choice_cross_entropy_backward.cpp. Reads 10 bytes per row at most.
#include "device/kernels/cuda_factories.h"
#include "device/kernels/row_loss.cuh"

namespace l2l::device::cuda {

const Factory make_choice_cross_entropy_backward = make_for_input<RowLoss<ChoiceCrossEntropy, true>::OfType>;

}  // namespace l2l::device::cuda

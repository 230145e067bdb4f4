// Counterpart of squared_error_backward.cpp. Reads 10 bytes per row at most.
#include "device/kernels/cuda_factories.h"
#include "device/kernels/row_loss.cuh"

namespace l2l::device::cuda {

const Factory make_squared_error_backward = make_for_input<RowLoss<SquaredError, true>::OfType>;

}  // namespace l2l::device::cuda

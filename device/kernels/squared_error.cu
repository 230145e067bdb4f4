// Counterpart of squared_error.cpp. Reads 8 bytes per row at most.
#include "device/kernels/cuda_factories.h"
#include "device/kernels/row_loss.cuh"

namespace l2l::device::cuda {

const Factory make_squared_error = make_for_input<RowLoss<SquaredError, false>::OfType>;

}  // namespace l2l::device::cuda

#include "device/kernels/squared_error.h"

#include "device/kernels/factories.h"

namespace l2l::device::kernels {

const Factory make_squared_error_backward = make_for_input<SquaredError<true>::OfType>;

}  // namespace l2l::device::kernels

#include "device/kernels/squared_error.h"

#include "device/kernels/factories.h"

namespace l2l::device::kernels {

const Factory make_squared_error = make_for_input<SquaredError<false>::OfType>;

}  // namespace l2l::device::kernels

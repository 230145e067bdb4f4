#include "device/kernels/choice_cross_entropy.h"

#include "device/kernels/factories.h"

namespace l2l::device::kernels {

const Factory make_choice_cross_entropy_backward = make_for_input<ChoiceCrossEntropy<true>::OfType>;

}  // namespace l2l::device::kernels

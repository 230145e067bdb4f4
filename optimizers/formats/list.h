// The formats that kernels are instantiated for, in the order of the enumerations of optimizers/format.h.
#pragma once

#include "optimizers/format.h"
#include "optimizers/formats/bf16.h"
#include "optimizers/formats/f32.h"
#include "optimizers/formats/gradients.h"
#include "optimizers/formats/int8.h"
#include "optimizers/formats/masters.h"

namespace l2l::optimizers {

template <template <class> class FirstFormat, template <class> class SecondFormat>
struct MomentPair {
  template <class P>
  using First = FirstFormat<P>;
  template <class P>
  using Second = SecondFormat<P>;
};

template <class... T>
struct List {};

using GradientList = List<GradientF32, GradientBf16, GradientF16>;
using MomentPairList = List<MomentPair<MomentF32, MomentF32>, MomentPair<MomentBf16, MomentF32>,
                            MomentPair<MomentBf16, MomentBf16>, MomentPair<MomentInt8First, MomentInt8Second>>;
using SingleMomentList =
    List<MomentPair<MomentF32, NoMoment>, MomentPair<MomentBf16, NoMoment>, MomentPair<MomentInt8First, NoMoment>>;

template <MasterFormat format, template <class> class Format>
struct Master {
  static constexpr MasterFormat kFormat = format;
  template <class P>
  using Type = Format<P>;
};
using MasterList = List<Master<MasterFormat::f32, MasterF32>, Master<MasterFormat::split, MasterSplit>,
                        Master<MasterFormat::beside_f16, MasterBesideF16>>;

}  // namespace l2l::optimizers

// The kernels over plain fp32 arrays of one length, as the tests of an optimizer's arithmetic want them.
#pragma once

#include <cstdint>
#include <span>

#include "optimizers/kernels.h"

namespace l2l::optimizers {

inline Streams plain_streams(std::span<float> master, std::span<float> moment1, std::span<float> moment2) {
  Streams streams;
  streams.count = master.size();
  streams.wire = master.data();
  streams.first.codes = moment1.data();
  streams.second.codes = moment2.data();
  return streams;
}

inline void adamw(std::span<float> master, std::span<float> moment1, std::span<float> moment2,
                  std::span<const float> gradient, const AdamWSettings& settings) {
  Streams streams = plain_streams(master, moment1, moment2);
  const void* const gradients[] = {gradient.data()};
  streams.gradients = gradients;
  streams.contributions = 1;
  kernels().adamw_of(DType::f32, MasterFormat::f32, {})(streams, AdamWConstants(settings));
}

inline void sgd(std::span<float> master, std::span<float> buffer, std::span<const float> gradient,
                const SgdSettings& settings) {
  Streams streams = plain_streams(master, buffer, {});
  const void* const gradients[] = {gradient.data()};
  streams.gradients = gradients;
  streams.contributions = 1;
  kernels().sgd_of(DType::f32, MasterFormat::f32, MomentFormat::f32)(streams, settings);
}

inline LambSquares lamb_moments(std::span<float> master, std::span<float> moment1, std::span<float> moment2,
                                std::span<const float> gradient, const LambSettings& settings) {
  Streams streams = plain_streams(master, moment1, moment2);
  const void* const gradients[] = {gradient.data()};
  streams.gradients = gradients;
  streams.contributions = 1;
  LambLanes lanes;
  kernels().lamb_moments_of(DType::f32, MasterFormat::f32, {})(streams, LambConstants(settings), lanes);
  return lanes.sum();
}

inline void lamb_apply(std::span<float> master, std::span<float> moment1, std::span<float> moment2, double ratio,
                       const LambSettings& settings) {
  const LambConstants constants(settings);
  kernels().lamb_apply_of(MasterFormat::f32, {})(plain_streams(master, moment1, moment2), constants,
                                                 static_cast<float>(constants.learning_rate * ratio));
}

inline void split(std::span<const float> master, std::span<std::uint16_t> wire, std::span<std::uint16_t> low) {
  Streams streams;
  streams.count = master.size();
  streams.wire = wire.data();
  streams.master = low.data();
  kernels().store_master[static_cast<std::size_t>(MasterFormat::split)](streams, master.data());
}

// `wire` and `low` are only read.
inline void join(std::span<std::uint16_t> wire, std::span<std::uint16_t> low, std::span<float> master) {
  Streams streams;
  streams.count = master.size();
  streams.wire = wire.data();
  streams.master = low.data();
  kernels().load_master[static_cast<std::size_t>(MasterFormat::split)](streams, master.data());
}

}  // namespace l2l::optimizers

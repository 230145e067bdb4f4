// Makes the table of one instruction set. Only kernels_*.cpp include it, each compiled for its own set. Every function
// that is emitted has the set's Pack in its name, and everything else is inlined, so that the linker cannot replace one
// set's code by another's (tests/optimizers/check_objects.py).
#pragma once

#include "optimizers/formats/list.h"
#include "optimizers/kernels.h"
#include "optimizers/update_loop.h"

namespace l2l::optimizers {

template <class P, class Gradient, class Master, class Moments>
struct UpdateKernels {
  using First = typename Moments::template First<P>;
  using Second = typename Moments::template Second<P>;
  using Target = typename Master::template Type<P>;
  template <class Arithmetic>
  static __attribute__((always_inline)) void run(const Streams& streams, Arithmetic& arithmetic) {
    using Loop = UpdateLoop<P, GradientSum<P, Gradient>, Target, First, Second, Arithmetic>;
    typename Loop::Workspaces workspaces;
    Loop(streams, workspaces, arithmetic).run();
  }

  static void adamw(const Streams& streams, const AdamWConstants& constants) {
    AdamW<P> arithmetic(constants);
    run(streams, arithmetic);
  }
  static void sgd(const Streams& streams, const SgdSettings& settings) {
    Sgd<P> arithmetic(settings);
    run(streams, arithmetic);
  }
  static void lamb_moments(const Streams& streams, const LambConstants& constants, LambLanes& lanes) {
    LambMoments<P, typename P::Squares> arithmetic(constants, lanes);
    run(streams, arithmetic);
    arithmetic.store(lanes);
  }
};

template <class P, class Master, class Moments>
void lamb_apply_kernel(const Streams& streams, const LambConstants& constants, float step) {
  LambApply<P> arithmetic(constants, step);
  using Loop = UpdateLoop<P, NoGradient<P>, typename Master::template Type<P>, typename Moments::template First<P>,
                          typename Moments::template Second<P>, LambApply<P>>;
  typename Loop::Workspaces workspaces;
  Loop(streams, workspaces, arithmetic).run();
}

template <class P, class Gradient>
void squares_kernel(const Streams& streams, double* lanes) {
  const GradientSum<P, Gradient> gradient(streams);
  auto squares = P::Squares::load(lanes);
  std::size_t i = 0;
  for (; i + kRows <= streams.count; i += kRows) {
    gradient.prefetch(i);
    for (std::size_t k = 0; k < kRows; k += kLanes) squares.add(gradient.template sum<false>(i + k, kLanes));
  }
  for (; i + kLanes <= streams.count; i += kLanes) squares.add(gradient.template sum<false>(i, kLanes));
  if (i < streams.count) squares.add(gradient.template sum<true>(i, streams.count - i));
  squares.store(lanes);
}

template <class P, class Gradient>
void sum_kernel(const Streams& streams, float* sums) {
  const GradientSum<P, Gradient> gradient(streams);
  std::size_t i = 0;
  for (; i + kRows <= streams.count; i += kRows) {
    gradient.prefetch(i);
    for (std::size_t k = 0; k < kRows; k += kLanes) gradient.template sum<false>(i + k, kLanes).store(sums + i + k);
  }
  for (; i + kLanes <= streams.count; i += kLanes) gradient.template sum<false>(i, kLanes).store(sums + i);
  if (i == streams.count) return;
  const std::size_t count = streams.count - i;
  store_row<true>(
      sums + i,
      count, [&](float* to) __attribute__((always_inline)) { gradient.template sum<true>(i, count).store(to); });
}

template <class P, class Master>
void load_master_kernel(const Streams& streams, float* destination) {
  const typename Master::template Type<P> master(streams);
  std::size_t i = 0;
  for (; i + kLanes <= streams.count; i += kLanes) master.template load<false>(i, kLanes).store(destination + i);
  if (i == streams.count) return;
  const std::size_t count = streams.count - i;
  store_row<true>(
      destination + i,
      count, [&](float* to) __attribute__((always_inline)) { master.template load<true>(i, count).store(to); });
}

template <class P, class Master>
void store_master_kernel(const Streams& streams, const float* source) {
  const typename Master::template Type<P> master(streams);
  std::size_t i = 0;
  for (; i + kLanes <= streams.count; i += kLanes) master.template store<false>(i, kLanes, P::load(source + i));
  if (i < streams.count) {
    const std::size_t count = streams.count - i;
    master.template store<true>(
        i, count,
        load_row<true>(
            source + i, count, [](const float* from) __attribute__((always_inline)) { return P::load(from); }));
  }
  master.finish();
}

template <class P, class Moment>
void decode_kernel(const MomentStream& stream, std::size_t count, float* destination) {
  typename Moment::Workspace workspace;
  Moment moment(stream, workspace);
  for (std::size_t i = 0; i < count; i += kLanes) {
    if (i % kLoopBlock == 0) moment.open(i);
    if (count - i >= kLanes) {
      moment.template load<false>(i, kLanes).store(destination + i);
    } else {
      store_row<true>(
          destination + i, count - i, [&](float* to) __attribute__((always_inline)) {
            moment.template load<true>(i, count - i).store(to);
          });
    }
  }
}

template <class P, class Moment>
void encode_kernel(const MomentStream& stream, std::size_t count, const float* source) {
  typename Moment::Workspace workspace;
  Moment moment(stream, workspace);
  const NearestRounding<P> rounding{Streams()};
  const auto random = shift_right<16>(rounding.of(0));
  const auto load = [](const float* from) __attribute__((always_inline)) { return P::load(from); };
  for (std::size_t block = 0; block < count; block += kLoopBlock) {
    const std::size_t end = count - block < kLoopBlock ? count : block + kLoopBlock;
    moment.open(block);
    std::size_t i = block;
    for (; i + kLanes <= end; i += kLanes) moment.template store<false>(i, kLanes, P::load(source + i), random);
    if (i < end) moment.template store<true>(i, end - i, load_row<true>(source + i, end - i, load), random);
    if constexpr (Moment::kBlocks) {
      moment.close(block);
      for (i = 0; i + 2 * kLanes <= end - block; i += 2 * kLanes) {
        moment.template write_pair<false>(i, 2 * kLanes, random, random);
      }
      if (i < end - block) moment.template write_pair<true>(i, end - block - i, random, random);
    }
  }
}

// Fills the tables, list by list.
template <class P>
struct TableMaker {
  template <class Gradient, class Master, class... Pair, class... Single>
  static void add_updates(Kernels& k, List<Pair...>, List<Single...>) {
    constexpr std::size_t kGradient = index_of(Gradient::kType), kMaster = static_cast<std::size_t>(Master::kFormat);
    std::size_t pair = 0;
    ((k.adamw[kGradient][kMaster][pair] = UpdateKernels<P, Gradient, Master, Pair>::adamw,
      k.lamb_moments[kGradient][kMaster][pair++] = UpdateKernels<P, Gradient, Master, Pair>::lamb_moments),
     ...);
    std::size_t single = 0;
    ((k.sgd[kGradient][kMaster][single++] = UpdateKernels<P, Gradient, Master, Single>::sgd), ...);
  }
  template <class Gradient, class Master>
  static void add_combination(Kernels& k) {
    if constexpr (has_update_kernels(Gradient::kType, Master::kFormat)) {
      add_updates<Gradient, Master>(k, MomentPairList(), SingleMomentList());
    }
  }
  template <class Gradient, class... Master>
  static void add_gradient(Kernels& k, List<Master...>) {
    k.squares[index_of(Gradient::kType)] = squares_kernel<P, Gradient>;
    k.sum[index_of(Gradient::kType)] = sum_kernel<P, Gradient>;
    (add_combination<Gradient, Master>(k), ...);
  }
  template <class... Gradient>
  static void add_gradients(Kernels& k, List<Gradient...>) {
    (add_gradient<Gradient>(k, MasterList()), ...);
  }
  template <class Master, class... Pair>
  static void add_master(Kernels& k, List<Pair...>) {
    constexpr std::size_t kMaster = static_cast<std::size_t>(Master::kFormat);
    k.load_master[kMaster] = load_master_kernel<P, Master>;
    k.store_master[kMaster] = store_master_kernel<P, Master>;
    std::size_t pair = 0;
    ((k.lamb_apply[kMaster][pair++] = lamb_apply_kernel<P, Master, Pair>), ...);
  }
  template <class... Master>
  static void add_masters(Kernels& k, List<Master...>) {
    (add_master<Master>(k, MomentPairList()), ...);
  }
  template <int kMoment, template <class> class... Format>
  static void add_codecs(Kernels& k) {
    std::size_t format = 0;
    ((k.decode[kMoment][format] = decode_kernel<P, Format<P>>,
      k.encode[kMoment][format++] = encode_kernel<P, Format<P>>),
     ...);
  }
  static Kernels make(const char* name) {
    Kernels k{};
    k.name = name;
    add_gradients(k, GradientList());
    add_masters(k, MasterList());
    add_codecs<0, MomentF32, MomentBf16, MomentInt8First>(k);
    add_codecs<1, MomentF32, MomentBf16, MomentInt8Second>(k);
    return k;
  }
};

}  // namespace l2l::optimizers

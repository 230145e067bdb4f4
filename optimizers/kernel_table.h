// Makes the table of one instruction set. Included by kernels_*.cpp alone, each compiled for its own set: every
// function that is emitted has the set's Pack in its name, and everything else is inlined, so that the linker cannot
// put one set's code into another's place (tests/optimizers/check_objects.py).
#pragma once

#include "optimizers/formats/list.h"
#include "optimizers/ghost.h"
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
    UpdateLoop<P, GradientSum<P, Gradient>, Target, First, Second, Arithmetic>(streams, arithmetic).run();
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
  UpdateLoop<P, NoGradient<P>, typename Master::template Type<P>, typename Moments::template First<P>,
             typename Moments::template Second<P>, LambApply<P>>(streams, arithmetic)
      .run();
}

template <class P, typename Gradient, class Master, class Moments>
void ghost_kernel(const Streams& streams) {
  Ghost<P> arithmetic;
  UpdateLoop<P, RawGradients<P, Gradient>, typename Master::template Type<P>, typename Moments::template First<P>,
             typename Moments::template Second<P>, Ghost<P>>(streams, arithmetic)
      .run();
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
  Moment moment(stream);
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
  Moment moment(stream);
  const NearestRounding<P> rounding{Streams()};
  const auto random = shift_right<16>(rounding.of(0));
  const auto load = [](const float* from) __attribute__((always_inline)) { return P::load(from); };
  for (std::size_t block = 0; block < count; block += kLoopBlock) {
    const std::size_t end = count - block < kLoopBlock ? count : block + kLoopBlock;
    moment.open(block);
    std::size_t i = block;
    for (; i + kLanes <= end; i += kLanes) moment.template store<false>(i, kLanes, P::load(source + i), random);
    if (i < end) moment.template store<true>(i, end - i, load_row<true>(source + i, end - i, load), random);
    moment.template close<0>(block, end, rounding);
  }
}

// Fills in the tables, list by list.
template <class P>
struct TableMaker {
  using RawPairs = List<MomentPair<RawMoment32, RawMoment32>, MomentPair<RawMoment16, RawMoment32>,
                        MomentPair<RawMoment16, RawMoment16>, MomentPair<RawMoment8, RawMoment8>>;
  using RawSingles =
      List<MomentPair<RawMoment32, NoMoment>, MomentPair<RawMoment16, NoMoment>, MomentPair<RawMoment8, NoMoment>>;

  template <std::size_t kGradient, std::size_t kMaster, class Gradient, class Master, class... Pair, class... Single>
  static void add_moments(Kernels& k, List<Pair...>, List<Single...>) {
    std::size_t pair = 0;
    ((k.adamw[kGradient][kMaster][pair] = UpdateKernels<P, Gradient, Master, Pair>::adamw,
      k.lamb_moments[kGradient][kMaster][pair] = UpdateKernels<P, Gradient, Master, Pair>::lamb_moments, ++pair),
     ...);
    std::size_t single = 0;
    ((k.sgd[kGradient][kMaster][single++] = UpdateKernels<P, Gradient, Master, Single>::sgd), ...);
  }
  template <std::size_t kMaster, class Master, class... Pair>
  static void add_apply(Kernels& k, List<Pair...>) {
    std::size_t pair = 0;
    ((k.lamb_apply[kMaster][pair++] = lamb_apply_kernel<P, Master, Pair>), ...);
  }
  template <std::size_t kGradient, std::size_t kMaster, typename Element, class Master, class... Pair>
  static void add_single_ghosts(Kernels& k, List<Pair...>) {
    std::size_t single = 0;
    ((k.ghost_of_one[kGradient][kMaster][single++] = ghost_kernel<P, Element, Master, Pair>), ...);
  }
  template <std::size_t kGradient, std::size_t kMaster, typename Element, class Master, class... Pair>
  static void add_ghosts(Kernels& k, List<Pair...>) {
    std::size_t pair = 0;
    ((k.ghost[kGradient][kMaster][pair++] = ghost_kernel<P, Element, Master, Pair>), ...);
  }
  template <std::size_t kGradient, std::size_t kMaster, class Gradient, class Master>
  static void add_update(Kernels& k) {
    add_moments<kGradient, kMaster, Gradient, Master>(k, MomentPairList(), SingleMomentList());
    add_ghosts<kGradient, kMaster, typename Gradient::Element, Master>(k, RawPairs());
    add_single_ghosts<kGradient, kMaster, typename Gradient::Element, Master>(k, RawSingles());
  }
  template <std::size_t kGradient, class Gradient, class First, class Second, class Third>
  static void add_gradient(Kernels& k, List<First, Second, Third>) {
    k.squares[kGradient] = squares_kernel<P, Gradient>;
    add_update<kGradient, 0, Gradient, First>(k);
    add_update<kGradient, 1, Gradient, Second>(k);
    add_update<kGradient, 2, Gradient, Third>(k);
  }
  template <std::size_t kMaster, class Master>
  static void add_master(Kernels& k) {
    k.load_master[kMaster] = load_master_kernel<P, Master>;
    k.store_master[kMaster] = store_master_kernel<P, Master>;
    add_apply<kMaster, Master>(k, MomentPairList());
  }
  template <class... First, class... Second>
  static void add_codecs(Kernels& k, List<First...>, List<Second...>) {
    std::size_t first = 0, second = 0;
    ((k.decode[0][first] = decode_kernel<P, typename First::template First<P>>,
      k.encode[0][first++] = encode_kernel<P, typename First::template First<P>>),
     ...);
    ((k.decode[1][second] = decode_kernel<P, typename Second::template Second<P>>,
      k.encode[1][second++] = encode_kernel<P, typename Second::template Second<P>>),
     ...);
  }
  static Kernels make(const char* name) {
    Kernels k{};
    k.name = name;
    add_gradient<0, GradientF32>(k, MasterList());
    add_gradient<1, GradientBf16>(k, MasterList());
    add_gradient<2, GradientF16>(k, MasterList());
    add_master<0, Master<MasterF32>>(k);
    add_master<1, Master<MasterSplit>>(k);
    add_master<2, Master<MasterBesideF16>>(k);
    add_codecs(k, SingleMomentList(),
               List<MomentPair<NoMoment, MomentF32>, MomentPair<NoMoment, MomentBf16>,
                    MomentPair<NoMoment, MomentInt8Second>>());
    return k;
  }
};

}  // namespace l2l::optimizers

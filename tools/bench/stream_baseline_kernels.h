// Makes the stream baselines of one instruction set: the loop of the updates (optimizers/update_loop.h) over raw bits.
// Included by stream_baseline_*.cpp alone, each compiled for its own set (see optimizers/kernel_table.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "optimizers/formats/list.h"
#include "optimizers/rounding.h"
#include "optimizers/update_loop.h"
#include "tools/bench/stream_baseline.h"

namespace l2l::tools {

using optimizers::List;
using optimizers::load_row;
using optimizers::MomentPair;
using optimizers::MomentStream;
using optimizers::NoMoment;
using optimizers::prefetch_rows;
using optimizers::store_row;
using optimizers::Streams;

// Words of one stream, of which only the bits of an Element are read and written.
template <class P, typename Element>
class RawStream {
 public:
  using Words = typename P::Words;
  explicit __attribute__((always_inline)) RawStream(void* at) : at_(static_cast<Element*>(at)) {}
  __attribute__((always_inline)) void prefetch(std::size_t i) const { prefetch_rows(at_ + i); }
  template <bool kTail>
  __attribute__((always_inline)) Words load(std::size_t i, std::size_t count) const {
    return load_row<kTail>(
        at_ + i, count, [](const Element* from) __attribute__((always_inline)) { return word(from); });
  }
  template <bool kTail>
  __attribute__((always_inline)) void store(std::size_t i, std::size_t count, Words value) const {
    store_row<kTail>(
        at_ + i, count, [&](Element * to) __attribute__((always_inline)) { put(to, value); });
  }

  static __attribute__((always_inline)) Words word(const float* from) { return bits(P::load(from)); }
  static __attribute__((always_inline)) Words word(const std::uint16_t* from) { return Words::load_u16(from); }
  static __attribute__((always_inline)) Words word(const std::uint8_t* from) { return Words::load_u8(from); }
  static __attribute__((always_inline)) void put(float* to, Words value) { from_bits(value).store(to); }
  static __attribute__((always_inline)) void put(std::uint16_t* to, Words value) { value.store_u16(to); }
  static __attribute__((always_inline)) void put(std::uint8_t* to, Words value) { value.store_u8(to); }

 private:
  Element* at_;
};

template <class P, typename Element>
class RawGradients {
 public:
  explicit __attribute__((always_inline)) RawGradients(const Streams& streams)
      : parts_(streams.gradients), count_(streams.contributions) {}
  __attribute__((always_inline)) void prefetch(std::size_t i) const {
    for (std::size_t k = 0; k < count_; ++k) prefetch_rows(static_cast<const Element*>(parts_[k]) + i);
  }
  template <bool kTail>
  __attribute__((always_inline)) P load(std::size_t i, std::size_t count) const {
    auto all = P::Words::all(0);
    for (std::size_t k = 0; k < count_; ++k) {
      all = all ^
            load_row<kTail>(
                static_cast<const Element*>(parts_[k]) + i, count,
                [](const Element* from) __attribute__((always_inline)) { return RawStream<P, Element>::word(from); });
    }
    return from_bits(all);
  }

 private:
  const void* const* parts_;
  std::size_t count_;
};

template <class P, typename Element>
class RawMoment {
 public:
  using Words = typename P::Words;
  static constexpr bool kRounds = false, kPairs = false, kBlocks = false;
  struct Workspace {};
  __attribute__((always_inline)) RawMoment(const MomentStream& stream, Workspace&)
      : codes_(stream.codes), scales_(stream.scales) {}
  __attribute__((always_inline)) void prefetch(std::size_t i) const { codes_.prefetch(i); }
  __attribute__((always_inline)) void open(std::size_t block) const {
    if constexpr (sizeof(Element) > 1) return;
    std::uint16_t* const scales = scales_ + block / 32;
    (Words::load_u16(scales) ^ Words::all(1)).store_u16(scales);
  }
  template <bool kTail>
  __attribute__((always_inline)) P load(std::size_t i, std::size_t count) const {
    return from_bits(codes_.template load<kTail>(i, count));
  }
  template <bool kTail>
  __attribute__((always_inline)) void store(std::size_t i, std::size_t count, P value, Words) const {
    codes_.template store<kTail>(i, count, bits(value));
  }

 private:
  RawStream<P, Element> codes_;
  std::uint16_t* scales_;
};

template <class P>
using RawMoment32 = RawMoment<P, float>;
template <class P>
using RawMoment16 = RawMoment<P, std::uint16_t>;
template <class P>
using RawMoment8 = RawMoment<P, std::uint8_t>;

template <class P>
class ExclusiveOr {
 public:
  static constexpr bool kWritesMaster = true, kWritesMoments = true;
  template <class Q>
  using Rounding = optimizers::StochasticRounding<Q>;
  __attribute__((always_inline)) void update(P g, P& w, P& m, P& v) const {
    const auto row = bits(g);
    w = from_bits(bits(w) ^ row);
    m = from_bits(bits(m) ^ row);
    v = from_bits(bits(v) ^ row);
  }
};

template <class P, typename Element, class Master, class Moments>
void baseline_kernel(const Streams& streams) {
  ExclusiveOr<P> arithmetic;
  using Loop =
      optimizers::UpdateLoop<P, RawGradients<P, Element>, typename Master::template Type<P>,
                             typename Moments::template First<P>, typename Moments::template Second<P>, ExclusiveOr<P>>;
  typename Loop::Workspaces workspaces;
  Loop(streams, workspaces, arithmetic).run();
}

// Fills in the tables.
template <class P>
struct BaselineMaker {
  using Pairs = List<MomentPair<RawMoment32, RawMoment32>, MomentPair<RawMoment16, RawMoment32>,
                     MomentPair<RawMoment16, RawMoment16>, MomentPair<RawMoment8, RawMoment8>>;
  using Singles =
      List<MomentPair<RawMoment32, NoMoment>, MomentPair<RawMoment16, NoMoment>, MomentPair<RawMoment8, NoMoment>>;

  template <class Gradient, class Master, class... Moments>
  static void add(StreamBaseline* table, List<Moments...>) {
    ((*table++ = baseline_kernel<P, typename Gradient::Element, Master, Moments>), ...);
  }
  template <class... Gradient, class... Master>
  static void add_wires(StreamBaselines& all, List<Gradient...>, List<Master...>) {
    (add<Gradient, Master>(all.two_moments[optimizers::index_of(Gradient::kType)], Pairs()), ...);
    (add<Gradient, Master>(all.one_moment[optimizers::index_of(Gradient::kType)], Singles()), ...);
  }
  static StreamBaselines make(const char* name) {
    StreamBaselines all{};
    all.name = name;
    add_wires(all, optimizers::GradientList(), optimizers::MasterList());
    return all;
  }
};

}  // namespace l2l::tools

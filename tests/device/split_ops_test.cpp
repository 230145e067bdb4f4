// Ops of layers that are split over devices in host memory: what the devices have together is what one device has.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "compiler/autodiff/differentiate.h"
#include "compiler/ir/graph.h"
#include "core/philox.h"
#include "device/host/host_device.h"
#include "l2l/errors.h"

namespace l2l::device {
namespace {

using compiler::Attributes;
using compiler::Graph;
using compiler::GraphBuilder;
using compiler::OpKind;
using compiler::Region;
using compiler::Shard;
using compiler::ValueId;

using Floats = std::vector<float>;

Floats numbers(std::int64_t count, std::uint32_t op) {
  Floats result;
  for (std::int64_t i = 0; i < count; ++i) {
    result.push_back(to_uniform(philox({.seed = 7, .op = op}, static_cast<std::uint32_t>(i))[0]) - 0.5f);
  }
  return result;
}

// What one device's program reads and writes, by region; a program of fp32 but for tokens and targets.
struct RegionMemory {
  std::array<std::vector<std::byte>, static_cast<std::size_t>(Region::count)> bytes;

  template <typename T>
  RegionMemory& set(Region region, const std::vector<T>& values) {
    auto& to = bytes[static_cast<std::size_t>(region)];
    to.resize(values.size() * sizeof(T));
    std::memcpy(to.data(), values.data(), to.size());
    return *this;
  }
  Floats floats(Region region) const {
    const auto& from = bytes[static_cast<std::size_t>(region)];
    Floats values(from.size() / sizeof(float));
    std::memcpy(values.data(), from.data(), from.size());
    return values;
  }
  double loss() const {
    double value = 0;
    std::memcpy(&value, bytes[static_cast<std::size_t>(Region::loss)].data(), sizeof value);
    return value;
  }
};

// Devices that run their programs at the same time.
class Devices {
 public:
  explicit Devices(int count) {
    const auto group = std::make_shared<TensorGroup>(count);
    for (int i = 0; i < count; ++i) {
      devices_.push_back(std::make_unique<HostDevice>(/*threads=*/2, /*link_bandwidth=*/0));
      if (count > 1) devices_.back()->join({group, i});
    }
  }

  // graph_of(share) on each device. Rethrows the first failure, after all have ended.
  void run(const std::function<Graph(Shard)>& graph_of, std::vector<RegionMemory>& memories,
           const LaunchParameters& parameters = {.seed = 3, .step = 1, .layer = 2, .loss_scale = 0.25f}) {
    std::vector<std::unique_ptr<Executable>> programs;
    std::vector<std::unique_ptr<Stream>> streams;
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      const Shard shard{static_cast<std::int32_t>(devices_.size()), static_cast<std::int32_t>(i)};
      programs.push_back(devices_[i]->compile(graph_of(shard)));
      streams.push_back(devices_[i]->create_stream("compute"));
      Bindings bindings;
      for (std::size_t r = 0; r < bindings.regions.size(); ++r) {
        const auto region = static_cast<Region>(r);
        auto& bytes = memories[i].bytes[r];
        const Bytes needed = region == Region::scratch ? programs.back()->program().scratch_bytes
                                                       : programs.back()->program().graph.region_bytes(region);
        if (bytes.size() < needed) bytes.resize(needed);
        bindings[region] = {bytes.data(), bytes.size()};
      }
      devices_[i]->launch(*streams.back(), *programs.back(), bindings, parameters);
    }
    std::exception_ptr failure;
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      try {
        devices_[i]->synchronize(*streams[i]);
      } catch (...) {
        if (!failure) failure = std::current_exception();
      }
    }
    if (failure) std::rethrow_exception(failure);
  }

 private:
  std::vector<std::unique_ptr<HostDevice>> devices_;
};

Floats rows_of(const Floats& matrix, std::int64_t columns, std::int64_t first, std::int64_t count) {
  return {matrix.begin() + first * columns, matrix.begin() + (first + count) * columns};
}

// Columns [first, first + count) of each row.
Floats columns_of(const Floats& matrix, std::int64_t columns, std::int64_t first, std::int64_t count) {
  Floats result;
  for (std::size_t row = 0; row < matrix.size() / static_cast<std::size_t>(columns); ++row) {
    const auto begin = matrix.begin() + static_cast<std::int64_t>(row) * columns + first;
    result.insert(result.end(), begin, begin + count);
  }
  return result;
}

Floats joined(std::initializer_list<Floats> parts, std::int64_t rows) {
  Floats result;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (const Floats& part : parts) {
      const auto columns = static_cast<std::int64_t>(part.size()) / rows;
      result.insert(result.end(), part.begin() + row * columns, part.begin() + (row + 1) * columns);
    }
  }
  return result;
}

constexpr std::int64_t kRows = 12, kHidden = 32;
constexpr int kSequence = 6;

class SplitOps : public ::testing::TestWithParam<int> {
 protected:
  const int count_ = GetParam();
  const std::int64_t own_rows_ = kRows / count_;
  std::vector<RegionMemory> memories_{static_cast<std::size_t>(count_)};
  Devices devices_{count_};

  RegionMemory& of(int device) { return memories_[static_cast<std::size_t>(device)]; }
};

TEST_P(SplitOps, GatherTheRowsOfAll) {
  const Floats all = numbers(kRows * kHidden, 1);
  for (int i = 0; i < count_; ++i) of(i).set(Region::input, rows_of(all, kHidden, i * own_rows_, own_rows_));
  devices_.run(
      [&](Shard shard) {
        GraphBuilder graph("gather");
        const ValueId x = graph.bound(Region::input, "x", DType::f32, {own_rows_, kHidden});
        graph.place(graph.apply(OpKind::all_gather_rows, {x}, {.shard = shard}), Region::output);
        return graph.finish();
      },
      memories_);
  for (int i = 0; i < count_; ++i) EXPECT_EQ(of(i).floats(Region::output), all) << i;
}

// Among pairs of neighbours.
TEST_P(SplitOps, ExchangeAmongFewerThanAll) {
  if (count_ % 2 != 0) GTEST_SKIP() << "no pairs";
  const std::int64_t rows = 2;
  std::vector<Floats> parts;
  for (int i = 0; i < count_; ++i) {
    parts.push_back(numbers(rows * kHidden, static_cast<std::uint32_t>(2 + i)));
    of(i).set(Region::input, parts.back());
  }
  const auto graph_of = [&](Shard shard) {
    const Shard pair{2, shard.index % 2};
    GraphBuilder graph("pairs");
    const ValueId x = graph.bound(Region::input, "x", DType::f32, {rows, kHidden});
    const ValueId own = graph.apply(OpKind::reduce_scatter_rows, {x}, {.shard = pair});
    graph.place(graph.apply(OpKind::all_gather_rows, {own}, {.shard = pair}), Region::output);
    return graph.finish();
  };
  devices_.run(graph_of, memories_);
  for (int i = 0; i < count_; ++i) {
    const Floats &first = parts[static_cast<std::size_t>(i / 2 * 2)],
                 &second = parts[static_cast<std::size_t>(i / 2 * 2 + 1)];
    const Floats sums = of(i).floats(Region::output);
    for (std::size_t at = 0; at < sums.size(); ++at) EXPECT_EQ(sums[at], first[at] + second[at]) << i << ", " << at;
  }
}

// ((0 + 1) + (2 + 3)) + ..., whichever device comes first.
TEST_P(SplitOps, ScatterTheSumOfAllInTheOrderOfATree) {
  std::vector<Floats> parts;
  for (int i = 0; i < count_; ++i) {
    parts.push_back(numbers(kRows * kHidden, static_cast<std::uint32_t>(2 + i)));
    for (float& each : parts.back()) each *= std::ldexp(1.0f, 12 * i % 23);
    of(i).set(Region::input, parts.back());
  }
  const auto graph_of = [&](Shard shard) {
    GraphBuilder graph("scatter");
    const ValueId x = graph.bound(Region::input, "x", DType::f32, {kRows, kHidden});
    graph.place(graph.apply(OpKind::reduce_scatter_rows, {x}, {.shard = shard}), Region::output);
    return graph.finish();
  };
  devices_.run(graph_of, memories_);
  const std::function<float(std::size_t, int, int)> tree = [&](std::size_t at, int first, int size) {
    if (size == 1) return parts[static_cast<std::size_t>(first)][at];
    int left = 1;
    while (2 * left < size) left *= 2;
    return tree(at, first, left) + tree(at, first + left, size - left);
  };
  for (int i = 0; i < count_; ++i) {
    const Floats y = of(i).floats(Region::output);
    for (std::size_t at = 0; at < y.size(); ++at) {
      EXPECT_EQ(y[at], tree(static_cast<std::size_t>(i * own_rows_ * kHidden) + at, 0, count_)) << i << ", " << at;
    }
  }
}

TEST_P(SplitOps, DropWhatOneDeviceDrops) {
  const Floats all = numbers(kRows * kHidden, 1);
  for (const float probability : {0.25f, 0.001f}) {  // by bytes, and by words
    const auto graph_of = [&](std::int64_t rows, Shard shard) {
      GraphBuilder graph("dropout");
      const ValueId x = graph.bound(Region::input, "x", DType::f32, {rows, kHidden});
      const Attributes attributes{.probability = probability, .rng_op = 4, .shard = shard};
      graph.place(graph.apply(OpKind::dropout, {x}, attributes), Region::output);
      return graph.finish();
    };
    std::vector<RegionMemory> whole(1);
    whole[0].set(Region::input, all);
    Devices(1).run([&](Shard shard) { return graph_of(kRows, shard); }, whole);
    for (int i = 0; i < count_; ++i) of(i).set(Region::input, rows_of(all, kHidden, i * own_rows_, own_rows_));
    devices_.run([&](Shard shard) { return graph_of(own_rows_, shard); }, memories_);
    for (int i = 0; i < count_; ++i) {
      const Floats expected = rows_of(whole[0].floats(Region::output), kHidden, i * own_rows_, own_rows_);
      EXPECT_EQ(of(i).floats(Region::output), expected) << i << ", " << probability;
      if (i > 0) {
        EXPECT_NE(rows_of(whole[0].floats(Region::output), kHidden, 0, own_rows_), expected);
      }
    }
  }
}

// With dropout, and its gradient.
TEST_P(SplitOps, HaveHeadsOfTheirOwn) {
  constexpr std::int64_t kHead = 16;
  const std::int64_t heads = 12, columns = heads * kHead, own_heads = heads / count_, own = own_heads * kHead;
  const Floats qkv = numbers(kRows * 3 * columns, 1), dy = numbers(kRows * columns, 2);
  const auto forward = [&](std::int64_t on_device, Shard shard) {
    GraphBuilder graph("attention");
    const ValueId x = graph.bound(Region::input, "qkv", DType::f32, {kRows, 3 * on_device * kHead});
    const Attributes attributes{
        .probability = 0.25f, .rng_op = 4, .heads = static_cast<int>(on_device), .sequence = kSequence, .shard = shard};
    graph.place(graph.apply(OpKind::attention, {x}, attributes), Region::output);
    return graph.finish();
  };
  const auto part = [&](const Floats& all, int i) {
    return joined({columns_of(all, 3 * columns, i * own, own), columns_of(all, 3 * columns, columns + i * own, own),
                   columns_of(all, 3 * columns, 2 * columns + i * own, own)},
                  kRows);
  };
  std::vector<RegionMemory> whole(1);
  whole[0].set(Region::input, qkv).set(Region::output_gradient, dy);
  Devices one(1);
  one.run([&](Shard shard) { return forward(heads, shard); }, whole);
  one.run([&](Shard shard) { return compiler::differentiate(forward(heads, shard)); }, whole);
  for (int i = 0; i < count_; ++i) {
    of(i).set(Region::input, part(qkv, i)).set(Region::output_gradient, columns_of(dy, columns, i * own, own));
  }
  devices_.run([&](Shard shard) { return forward(own_heads, shard); }, memories_);
  devices_.run([&](Shard shard) { return compiler::differentiate(forward(own_heads, shard)); }, memories_);
  for (int i = 0; i < count_; ++i) {
    EXPECT_EQ(of(i).floats(Region::output), columns_of(whole[0].floats(Region::output), columns, i * own, own)) << i;
    EXPECT_EQ(of(i).floats(Region::input_gradient), part(whole[0].floats(Region::input_gradient), i)) << i;
  }
}

// Tokens of a split table, whose rows are summed and then get their positions; and the gradients of both tables.
TEST_P(SplitOps, EmbedTokensOfATableThatIsSplit) {
  constexpr std::int64_t kVocabulary = 24;
  const std::int64_t own = kVocabulary / count_;
  const Floats table = numbers(kVocabulary * kHidden, 1), positions = numbers(kSequence * kHidden, 2);
  const Floats dy = numbers(kRows * kHidden, 3);
  std::vector<std::int32_t> tokens;
  for (std::int32_t row = 0; row < kRows; ++row) tokens.push_back(row * 7 % kVocabulary);
  const auto forward = [&](Shard shard) {
    const std::int64_t on_device = kVocabulary / shard.count;
    GraphBuilder graph("embedding");
    const ValueId ids = graph.bound(Region::tokens, "tokens", DType::i32, {kRows});
    const ValueId rows = graph.bound(Region::weights, "table", DType::f32, {on_device, kHidden});
    const ValueId places = graph.bound(Region::weights, "positions", DType::f32, {kSequence, kHidden},
                                       static_cast<Bytes>(on_device * kHidden) * sizeof(float));
    const ValueId found = graph.apply(OpKind::lookup, {ids, rows},
                                      {.first = shard.index * on_device, .vocabulary = kVocabulary, .shard = shard});
    const ValueId scattered = graph.apply(OpKind::reduce_scatter_rows, {found}, {.shard = shard});
    graph.place(graph.apply(OpKind::add_positions, {scattered, places}, {.sequence = kSequence, .shard = shard}),
                Region::output);
    return graph.finish();
  };
  const auto prepare = [&](RegionMemory& memory, std::int64_t first, std::int64_t count, std::int64_t row,
                           std::int64_t rows) {
    Floats weights = rows_of(table, kHidden, first, count);
    weights.insert(weights.end(), positions.begin(), positions.end());
    memory.set(Region::tokens, tokens).set(Region::weights, weights);
    memory.set(Region::output_gradient, rows_of(dy, kHidden, row, rows));
  };
  std::vector<RegionMemory> whole(1);
  prepare(whole[0], 0, kVocabulary, 0, kRows);
  Devices one(1);
  one.run(forward, whole);
  one.run([&](Shard shard) { return compiler::differentiate(forward(shard)); }, whole);
  for (int i = 0; i < count_; ++i) prepare(of(i), i * own, own, i * own_rows_, own_rows_);
  devices_.run(forward, memories_);
  devices_.run([&](Shard shard) { return compiler::differentiate(forward(shard)); }, memories_);
  const Floats gradients = whole[0].floats(Region::gradients);
  Floats of_positions(kSequence * kHidden, 0.0f);
  for (int i = 0; i < count_; ++i) {
    EXPECT_EQ(of(i).floats(Region::output), rows_of(whole[0].floats(Region::output), kHidden, i * own_rows_, own_rows_))
        << i;
    const Floats here = of(i).floats(Region::gradients);
    EXPECT_EQ(rows_of(here, kHidden, 0, own), rows_of(gradients, kHidden, i * own, own)) << i;
    for (std::size_t at = 0; at < of_positions.size(); ++at) {
      of_positions[at] += here[static_cast<std::size_t>(own * kHidden) + at];
    }
  }
  for (std::size_t at = 0; at < of_positions.size(); ++at) {
    EXPECT_NEAR(of_positions[at], gradients[static_cast<std::size_t>(kVocabulary * kHidden) + at], 1e-6) << at;
  }
}

// The last device has fewer tokens. Logits are all there at once, or of some rows at a time, or of some tokens.
TEST_P(SplitOps, FindTheLossOfATableThatIsSplit) {
  struct Case {
    std::int64_t rows, hidden, vocabulary;
  };
  for (const Case& each : {Case{12, 32, 50}, Case{1100, 8, 12001}, Case{1100, 8, 60001}}) {
    const std::int64_t rows = each.rows, hidden = each.hidden, vocabulary = each.vocabulary;
    const std::int64_t share = compiler::largest_token_share(vocabulary, count_);
    const Floats x = numbers(rows * hidden, 1), table = numbers(vocabulary * hidden, 2);
    std::vector<std::int32_t> targets;
    for (std::int32_t row = 0; row < rows; ++row) {
      targets.push_back(row == 3 ? -1 : static_cast<std::int32_t>(row * std::int64_t{1237} % vocabulary));
    }
    const auto forward = [&](Shard shard) {
      const std::int64_t first = shard.count == 1 ? 0 : shard.index * share;
      const std::int64_t own = shard.count == 1 ? vocabulary : std::min(share, vocabulary - first);
      GraphBuilder graph("head");
      const ValueId input = graph.bound(Region::input, "x", DType::f32, {rows, hidden});
      const ValueId weights = graph.bound(Region::weights, "table", DType::f32, {own, hidden});
      const ValueId of_rows = graph.bound(Region::targets, "targets", DType::i32, {rows});
      graph.place(graph.apply(OpKind::linear_cross_entropy, {input, weights, of_rows},
                              {.first = first, .vocabulary = vocabulary, .shard = shard}),
                  Region::loss);
      return graph.finish();
    };
    const auto backward = [&](Shard shard) { return compiler::differentiate(forward(shard)); };
    std::vector<RegionMemory> whole(1), memories(static_cast<std::size_t>(count_));
    whole[0].set(Region::input, x).set(Region::weights, table).set(Region::targets, targets);
    Devices(1).run(backward, whole);
    for (int i = 0; i < count_; ++i) {
      const std::int64_t own = std::min(share, vocabulary - i * share);
      memories[static_cast<std::size_t>(i)]
          .set(Region::input, x)
          .set(Region::weights, rows_of(table, hidden, i * share, own))
          .set(Region::targets, targets);
    }
    Devices devices(count_);
    devices.run(backward, memories);
    Floats dx(x.size(), 0.0f);
    const Floats dtable = whole[0].floats(Region::gradients);
    for (std::size_t i = 0; i < memories.size(); ++i) {
      EXPECT_NEAR(memories[i].loss(), whole[0].loss(), 1e-6 * whole[0].loss());
      EXPECT_EQ(memories[i].loss(), memories[0].loss());
      const Floats here = memories[i].floats(Region::gradients), part = memories[i].floats(Region::input_gradient);
      const std::size_t begin = i * static_cast<std::size_t>(share * hidden);
      for (std::size_t at = 0; at < here.size(); ++at)
        ASSERT_NEAR(here[at], dtable[begin + at], 1e-5) << i << ", " << at;
      for (std::size_t at = 0; at < dx.size(); ++at) dx[at] += part[at];
    }
    const Floats expected = whole[0].floats(Region::input_gradient);
    for (std::size_t at = 0; at < dx.size(); ++at) ASSERT_NEAR(dx[at], expected[at], 1e-6) << at;

    memories[0].set(Region::targets,
                    std::vector<std::int32_t>(static_cast<std::size_t>(rows), static_cast<std::int32_t>(vocabulary)));
    EXPECT_THROW(devices.run(forward, memories), BadInput);  // and the others do not wait for ever
  }
}

TEST_P(SplitOps, AreRefusedOnADeviceWithAnotherShare) {
  const auto graph_of = [&](Shard shard) {
    GraphBuilder graph("gather");
    const ValueId x = graph.bound(Region::input, "x", DType::f32, {own_rows_, kHidden});
    graph.place(graph.apply(OpKind::all_gather_rows, {x}, {.shard = shard}), Region::output);
    return graph.finish();
  };
  HostDevice alone(1, 0), last(1, 0);
  last.join({std::make_shared<TensorGroup>(count_), count_ - 1});
  EXPECT_NO_THROW(last.compile(graph_of({count_, count_ - 1})));
  EXPECT_THROW(last.compile(graph_of({count_, 0})), BadInput);
  EXPECT_THROW(last.compile(graph_of({count_ + 1, 0})), BadInput);
  EXPECT_THROW(alone.compile(graph_of({count_, 0})), BadInput);
  EXPECT_THROW(graph_of({count_, count_}), BadInput);
}

INSTANTIATE_TEST_SUITE_P(Devices, SplitOps, ::testing::Values(2, 3, 4), ::testing::PrintToStringParamName());

}  // namespace
}  // namespace l2l::device

// Ops of layers that are split over devices: what the devices have together is what one device has. On the host, or on
// what L2L_TEST_DEVICE says.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <future>

#include "compiler/autodiff/differentiate.h"
#include "compiler/ir/graph.h"
#include "core/dtype.h"
#include "core/philox.h"
#include "device/host/host_device.h"
#include "device/host_tensor_group.h"
#include "device/open.h"
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

std::string kind_of_devices() {
  const char* const kind = std::getenv("L2L_TEST_DEVICE");
  return kind != nullptr ? kind : "host";
}

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
  const std::vector<std::byte>& raw(Region region) const { return bytes[static_cast<std::size_t>(region)]; }
  double loss() const {
    double value = 0;
    std::memcpy(&value, bytes[static_cast<std::size_t>(Region::loss)].data(), sizeof value);
    return value;
  }
};

// Devices that run their programs at the same time.
class Devices {
 public:
  explicit Devices(int count, const std::string& kind = kind_of_devices()) {
    std::vector<Device*> members;
    for (int i = 0; i < count; ++i) {
      devices_.push_back(open_device({.kind = kind, .threads = 2, .index = i}));
      members.push_back(devices_.back().get());
    }
    if (count == 1) return;
    std::string reason;
    const auto group = make_tensor_group(members, reason);
    if (!group) throw Error(reason);
    for (int i = 0; i < count; ++i) members[static_cast<std::size_t>(i)]->join({group, i});
  }

  // graph_of(share) on each device. Rethrows the first failure, after all have ended.
  void run(const std::function<Graph(Shard)>& graph_of, std::vector<RegionMemory>& memories,
           const LaunchParameters& parameters = {.seed = 3, .step = 1, .layer = 2, .loss_scale = 0.25f}) {
    std::vector<std::unique_ptr<Run>> runs;
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      const Shard shard{static_cast<std::int32_t>(devices_.size()), static_cast<std::int32_t>(i)};
      runs.push_back(std::make_unique<Run>(*devices_[i], graph_of(shard), memories[i]));
    }
    std::vector<std::future<void>> running;
    for (const auto& run : runs) {
      running.push_back(std::async(std::launch::async, [&] { run->launch(parameters); }));
    }
    for (const std::future<void>& each : running) each.wait();
    for (std::future<void>& each : running) each.get();
    for (const auto& run : runs) run->take();
  }

 private:
  // Of a program on one device.
  class Run {
   public:
    Run(Device& device, const Graph& graph, RegionMemory& memory)
        : device_(device), memory_(memory), program_(device.compile(graph)), stream_(device.create_stream("compute")) {
      for (std::size_t r = 0; r < bindings_.regions.size(); ++r) {
        const auto region = static_cast<Region>(r);
        const Bytes needed = region == Region::scratch ? program_->program().scratch_bytes
                                                       : program_->program().graph.region_bytes(region);
        if (memory.bytes[r].size() < needed) memory.bytes[r].resize(needed);
        regions_.push_back(device.allocate(memory.bytes[r].size(), "test"));
        bindings_.regions[r] = regions_[r]->view();
        device.copy(*stream_, bindings_.regions[r], of_memory(r));
      }
      device.synchronize(*stream_);
    }
    void launch(const LaunchParameters& parameters) {
      device_.launch(*stream_, *program_, bindings_, parameters);
      device_.synchronize(*stream_);
    }
    void take() {
      for (std::size_t r = 0; r < regions_.size(); ++r) device_.copy(*stream_, of_memory(r), bindings_.regions[r]);
      device_.synchronize(*stream_);
    }

   private:
    BufferView of_memory(std::size_t region) { return {memory_.bytes[region].data(), memory_.bytes[region].size()}; }

    Device& device_;
    RegionMemory& memory_;
    Bindings bindings_;
    std::vector<std::unique_ptr<Buffer>> regions_;
    const std::unique_ptr<Executable> program_;
    const std::unique_ptr<Stream> stream_;
  };

  std::vector<std::unique_ptr<Device>> devices_;
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
    std::vector<RegionMemory> host = whole;
    Devices(1).run([&](Shard shard) { return graph_of(kRows, shard); }, whole);
    Devices(1, "host").run([&](Shard shard) { return graph_of(kRows, shard); }, host);
    EXPECT_EQ(whole[0].floats(Region::output), host[0].floats(Region::output)) << probability;
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

// Dropout as part of other ops, where devices fuse them: the rows of one device, and the same on all kinds.
TEST_P(SplitOps, DropWhatOneDeviceDropsBeforeSumsAndNorms) {
  for (const std::int64_t hidden : {32, 30}) {
    const Floats all = numbers(kRows * hidden, 1), weights = numbers((kRows + 2) * hidden, 2);
    const auto graph_of = [&](std::int64_t rows, Shard shard, bool norms) {
      const auto bytes = static_cast<Bytes>(hidden) * sizeof(float);
      GraphBuilder graph("dropout and sum");
      const ValueId x = graph.bound(Region::input, "x", DType::f32, {rows, hidden});
      const ValueId gain = graph.bound(Region::weights, "gain", DType::f32, {hidden});
      const ValueId bias = graph.bound(Region::weights, "bias", DType::f32, {hidden}, bytes);
      const ValueId other = graph.bound(Region::weights, "other", DType::f32, {rows, hidden}, 2 * bytes);
      const ValueId sum = graph.add(graph.dropout(x, 0.25f, shard), other);
      graph.place(norms ? graph.layer_norm(sum, gain, bias, 1e-5f) : sum, Region::output);
      return graph.finish();
    };
    const auto part = [&](int i) {
      Floats own = rows_of(weights, hidden, 0, 2);
      const Floats rows = rows_of(weights, hidden, 2 + i * own_rows_, own_rows_);
      own.insert(own.end(), rows.begin(), rows.end());
      return own;
    };
    for (const bool norms : {false, true}) {
      std::vector<RegionMemory> whole(1), host(1), parts(static_cast<std::size_t>(count_));
      whole[0].set(Region::input, all).set(Region::weights, weights);
      host = whole;
      Devices(1).run([&](Shard shard) { return graph_of(kRows, shard, norms); }, whole);
      Devices(1, "host").run([&](Shard shard) { return graph_of(kRows, shard, norms); }, host);
      for (int i = 0; i < count_; ++i) {
        parts[static_cast<std::size_t>(i)]
            .set(Region::input, rows_of(all, hidden, i * own_rows_, own_rows_))
            .set(Region::weights, part(i));
      }
      devices_.run([&](Shard shard) { return graph_of(own_rows_, shard, norms); }, parts);
      const Floats expected = whole[0].floats(Region::output), on_host = host[0].floats(Region::output);
      for (std::size_t at = 0; at < expected.size(); ++at) ASSERT_NEAR(expected[at], on_host[at], 1e-5) << at;
      for (int i = 0; i < count_; ++i) {
        EXPECT_EQ(parts[static_cast<std::size_t>(i)].floats(Region::output),
                  rows_of(expected, hidden, i * own_rows_, own_rows_))
            << i << ", " << hidden << (norms ? ", normed" : "");
      }
    }
  }
}

// With dropout, and its gradient. Sequences of which a block of random bits decides several keys, or not.
TEST_P(SplitOps, HaveHeadsOfTheirOwn) {
  constexpr std::int64_t kHead = 16;
  const std::int64_t heads = 12, columns = heads * kHead, own_heads = heads / count_, own = own_heads * kHead;
  for (const int sequence : {6, 16}) {
    const std::int64_t rows = 2 * sequence;
    const Floats qkv = numbers(rows * 3 * columns, 1), dy = numbers(rows * columns, 2);
    const auto forward = [&](std::int64_t on_device, Shard shard) {
      GraphBuilder graph("attention");
      const ValueId x = graph.bound(Region::input, "qkv", DType::f32, {rows, 3 * on_device * kHead});
      const Attributes attributes{.probability = 0.25f,
                                  .rng_op = 4,
                                  .heads = static_cast<int>(on_device),
                                  .sequence = sequence,
                                  .shard = shard};
      graph.place(graph.apply(OpKind::attention, {x}, attributes), Region::output);
      return graph.finish();
    };
    const auto part = [&](const Floats& all, int i) {
      return joined({columns_of(all, 3 * columns, i * own, own), columns_of(all, 3 * columns, columns + i * own, own),
                     columns_of(all, 3 * columns, 2 * columns + i * own, own)},
                    rows);
    };
    const auto run_whole = [&](const std::string& kind) {
      std::vector<RegionMemory> whole(1);
      whole[0].set(Region::input, qkv).set(Region::output_gradient, dy);
      Devices one(1, kind);
      one.run([&](Shard shard) { return forward(heads, shard); }, whole);
      one.run([&](Shard shard) { return compiler::differentiate(forward(heads, shard)); }, whole);
      return whole[0];
    };
    const RegionMemory whole = run_whole(kind_of_devices()), host = run_whole("host");
    std::vector<RegionMemory> parts(static_cast<std::size_t>(count_));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const int device = static_cast<int>(i);
      parts[i].set(Region::input, part(qkv, device));
      parts[i].set(Region::output_gradient, columns_of(dy, columns, device * own, own));
    }
    devices_.run([&](Shard shard) { return forward(own_heads, shard); }, parts);
    devices_.run([&](Shard shard) { return compiler::differentiate(forward(own_heads, shard)); }, parts);
    for (const Region region : {Region::output, Region::input_gradient}) {
      const Floats expected = whole.floats(region), on_host = host.floats(region);
      for (std::size_t at = 0; at < expected.size(); ++at) ASSERT_NEAR(expected[at], on_host[at], 1e-5) << at;
      for (int i = 0; i < count_; ++i) {
        const Floats its = region == Region::output ? columns_of(expected, columns, i * own, own) : part(expected, i);
        EXPECT_EQ(parts[static_cast<std::size_t>(i)].floats(region), its) << i << ", " << sequence;
      }
    }
  }
}

// The same of types whose products are those of tensor cores, where a device has some.
TEST_P(SplitOps, HaveHeadsOfTheirOwnInBf16) {
  constexpr std::int64_t kHead = 32, kSequenceOfRows = 48;
  const std::int64_t heads = 12, columns = heads * kHead, own_heads = heads / count_, own = own_heads * kHead;
  using Numbers = std::vector<bf16>;
  Numbers qkv;
  for (const float each : numbers(kSequenceOfRows * 3 * columns, 1)) qkv.push_back(to_bf16(4 * each));
  const auto part = [&](int i) {
    Numbers result;
    for (std::int64_t row = 0; row < kSequenceOfRows; ++row) {
      for (const std::int64_t section : {0, 1, 2}) {
        const auto begin = qkv.begin() + (row * 3 + section) * columns + i * own;
        result.insert(result.end(), begin, begin + own);
      }
    }
    return result;
  };
  const auto graph_of = [&](std::int64_t on_device, Shard shard) {
    GraphBuilder graph("attention");
    const ValueId x = graph.bound(Region::input, "qkv", DType::bf16, {kSequenceOfRows, 3 * on_device * kHead});
    const Attributes attributes{.probability = 0.25f,
                                .rng_op = 4,
                                .heads = static_cast<int>(on_device),
                                .sequence = kSequenceOfRows,
                                .shard = shard};
    graph.place(graph.apply(OpKind::attention, {x}, attributes), Region::output);
    return graph.finish();
  };
  std::vector<RegionMemory> whole(1);
  whole[0].set(Region::input, qkv);
  Devices(1).run([&](Shard shard) { return graph_of(heads, shard); }, whole);
  for (int i = 0; i < count_; ++i) of(i).set(Region::input, part(i));
  devices_.run([&](Shard shard) { return graph_of(own_heads, shard); }, memories_);
  const std::vector<std::byte>& all = whole[0].raw(Region::output);
  const auto row_bytes = static_cast<std::ptrdiff_t>(columns * 2), own_bytes = static_cast<std::ptrdiff_t>(own * 2);
  for (int i = 0; i < count_; ++i) {
    for (std::int64_t row = 0; row < kSequenceOfRows; ++row) {
      const auto expected = all.begin() + row * row_bytes + i * own_bytes;
      EXPECT_TRUE(std::equal(expected, expected + own_bytes, of(i).raw(Region::output).begin() + row * own_bytes))
          << i << ", row " << row;
    }
  }
}

// Tokens of a split table, whose rows are summed and then get their positions, or those that rows have of their own;
// and the gradients of both tables.
TEST_P(SplitOps, EmbedTokensOfATableThatIsSplit) {
  constexpr std::int64_t kVocabulary = 24;
  const std::int64_t own = kVocabulary / count_;
  const Floats table = numbers(kVocabulary * kHidden, 1), positions = numbers(kSequence * kHidden, 2);
  const Floats dy = numbers(kRows * kHidden, 3);
  std::vector<std::int32_t> tokens, places;
  for (std::int32_t row = 0; row < kRows; ++row) {
    tokens.push_back(row * 7 % kVocabulary);
    places.push_back(row * 5 % kSequence);
  }
  bool has_places = false;
  const auto forward = [&](Shard shard) {
    const std::int64_t on_device = kVocabulary / shard.count;
    GraphBuilder graph("embedding");
    const ValueId ids = graph.bound(Region::tokens, "tokens", DType::i32, {kRows});
    const ValueId rows = graph.bound(Region::weights, "table", DType::f32, {on_device, kHidden});
    const ValueId table_of_places = graph.bound(Region::weights, "positions", DType::f32, {kSequence, kHidden},
                                                static_cast<Bytes>(on_device * kHidden) * sizeof(float));
    const ValueId found = graph.apply(OpKind::lookup, {ids, rows},
                                      {.first = shard.index * on_device, .vocabulary = kVocabulary, .shard = shard});
    const ValueId scattered = graph.apply(OpKind::reduce_scatter_rows, {found}, {.shard = shard});
    std::optional<ValueId> own_places;
    if (has_places) own_places = graph.bound(Region::rows, "own places", DType::i32, {kRows});
    graph.place(graph.add_positions(scattered, table_of_places, kSequence, own_places, shard), Region::output);
    return graph.finish();
  };
  const auto prepare = [&](RegionMemory& memory, std::int64_t first, std::int64_t count, std::int64_t row,
                           std::int64_t rows) {
    Floats weights = rows_of(table, kHidden, first, count);
    weights.insert(weights.end(), positions.begin(), positions.end());
    memory.set(Region::tokens, tokens).set(Region::rows, places).set(Region::weights, weights);
    memory.set(Region::output_gradient, rows_of(dy, kHidden, row, rows));
  };
  for (const bool own_places : {false, true}) {
    has_places = own_places;
    std::vector<RegionMemory> whole(1), memories(static_cast<std::size_t>(count_));
    prepare(whole[0], 0, kVocabulary, 0, kRows);
    Devices one(1);
    one.run(forward, whole);
    one.run([&](Shard shard) { return compiler::differentiate(forward(shard)); }, whole);
    for (int i = 0; i < count_; ++i)
      prepare(memories[static_cast<std::size_t>(i)], i * own, own, i * own_rows_, own_rows_);
    devices_.run(forward, memories);
    devices_.run([&](Shard shard) { return compiler::differentiate(forward(shard)); }, memories);
    const Floats gradients = whole[0].floats(Region::gradients);
    Floats of_positions(kSequence * kHidden, 0.0f);
    for (int i = 0; i < count_; ++i) {
      EXPECT_EQ(memories[static_cast<std::size_t>(i)].floats(Region::output),
                rows_of(whole[0].floats(Region::output), kHidden, i * own_rows_, own_rows_))
          << i;
      const Floats here = memories[static_cast<std::size_t>(i)].floats(Region::gradients);
      EXPECT_EQ(rows_of(here, kHidden, 0, own), rows_of(gradients, kHidden, i * own, own)) << i;
      for (std::size_t at = 0; at < of_positions.size(); ++at) {
        of_positions[at] += here[static_cast<std::size_t>(own * kHidden) + at];
      }
    }
    for (std::size_t at = 0; at < of_positions.size(); ++at) {
      EXPECT_NEAR(of_positions[at], gradients[static_cast<std::size_t>(kVocabulary * kHidden) + at], 1e-6) << at;
    }
  }
}

// The last device has fewer tokens. Logits are all there at once, or of some rows at a time, or, on the host, of some
// tokens.
TEST_P(SplitOps, FindTheLossOfATableThatIsSplit) {
  struct Case {
    std::int64_t rows, hidden, vocabulary;
  };
  const std::vector<Case> cases = kind_of_devices() == "host"
                                      ? std::vector{Case{12, 32, 50}, Case{1100, 8, 12001}, Case{1100, 8, 60001}}
                                      : std::vector{Case{12, 32, 50}, Case{4200, 8, 100}};
  for (const Case& each : cases) {
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
    for (std::size_t at = 0; at < dx.size(); ++at) ASSERT_NEAR(dx[at], expected[at], 2e-6) << at;

    memories[0].set(Region::targets,
                    std::vector<std::int32_t>(static_cast<std::size_t>(rows), static_cast<std::int32_t>(vocabulary)));
    if (kind_of_devices() == "host") {
      EXPECT_THROW(devices.run(forward, memories), BadInput);  // and the others do not wait for ever
    } else {
      devices.run(forward, memories);
      EXPECT_TRUE(std::isnan(memories[0].loss()));
    }
  }
}

TEST_P(SplitOps, AreRefusedOnADeviceWithAnotherShare) {
  const auto graph_of = [&](Shard shard) {
    GraphBuilder graph("gather");
    const ValueId x = graph.bound(Region::input, "x", DType::f32, {own_rows_, kHidden});
    graph.place(graph.apply(OpKind::all_gather_rows, {x}, {.shard = shard}), Region::output);
    return graph.finish();
  };
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<Device*> members;
  for (int i = 0; i < count_; ++i) {
    devices.push_back(open_device({.kind = kind_of_devices(), .threads = 1, .index = i}));
    members.push_back(devices.back().get());
  }
  std::string reason;
  Device &alone = *devices.front(), &last = *devices.back();
  last.join({make_tensor_group(members, reason), count_ - 1});
  EXPECT_NO_THROW(last.compile(graph_of({count_, count_ - 1})));
  EXPECT_THROW(last.compile(graph_of({count_, 0})), BadInput);
  EXPECT_THROW(last.compile(graph_of({count_ + 1, 0})), BadInput);
  EXPECT_THROW(alone.compile(graph_of({count_, 0})), BadInput);
  EXPECT_THROW(graph_of({count_, count_}), BadInput);
}

// For measuring: what others would give is what the device gives itself, and nobody is waited for.
TEST_P(SplitOps, RunOnOneDeviceWithItsOwnRows) {
  HostDevice device(1, 0);
  device.join({HostTensorGroup(count_).alone(), 0});
  GraphBuilder graph("there and back");
  const ValueId x = graph.bound(Region::input, "x", DType::f32, {own_rows_, kHidden});
  const ValueId all = graph.apply(OpKind::all_gather_rows, {x}, {.shard = {count_, 0}});
  graph.place(all, Region::output);
  const ValueId sums_of_own = graph.apply(OpKind::reduce_scatter_rows, {all}, {.shard = {count_, 0}});
  graph.place(sums_of_own, Region::output, graph.value(all).bytes());
  const auto program = device.compile(graph.finish());
  const auto stream = device.create_stream("compute");
  Floats own(static_cast<std::size_t>(own_rows_ * kHidden));
  for (std::size_t i = 0; i < own.size(); ++i) own[i] = static_cast<float>(i);
  RegionMemory memory;
  memory.set(Region::input, own);
  Bindings bindings;
  for (const Region region : {Region::input, Region::output, Region::scratch}) {
    auto& bytes = memory.bytes[static_cast<std::size_t>(region)];
    bytes.resize(region == Region::scratch ? program->program().scratch_bytes
                                           : program->program().graph.region_bytes(region));
    bindings[region] = {bytes.data(), bytes.size()};
  }
  device.launch(*stream, *program, bindings, {});
  device.synchronize(*stream);
  const Floats results = memory.floats(Region::output);  // all rows, and the sums behind them
  for (std::int64_t i = 0; i < count_; ++i) {
    EXPECT_EQ(rows_of(results, kHidden, i * own_rows_, own_rows_), own) << i;
  }
  Floats sums = own;
  for (float& sum : sums) sum *= static_cast<float>(count_);
  EXPECT_EQ(rows_of(results, kHidden, count_ * own_rows_, own_rows_), sums);
}

INSTANTIATE_TEST_SUITE_P(Devices, SplitOps, ::testing::Values(2, 3, 4), ::testing::PrintToStringParamName());

}  // namespace
}  // namespace l2l::device

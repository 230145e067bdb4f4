// Planned programs, run by a simulation that writes each value's name into its bytes and checks at every read whether
// they still hold it. It knows nothing of lifetimes.
#include "compiler/memory/program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "compiler/autodiff/differentiate.h"
#include "l2l/errors.h"
#include "tests/compiler/example_graphs.h"

namespace l2l::compiler {
namespace {

class ByteMap {
 public:
  explicit ByteMap(const Program& program) : program_(program), owner_(program.scratch_bytes, -1) {}

  // What went wrong, or an empty string.
  std::string run() {
    for (std::size_t i = 0; i < program_.launches.size(); ++i) {
      const Launch& launch = program_.launches[i];
      const std::size_t inputs = launch.op.inputs.size();
      const std::string where = "op " + std::to_string(i) + ": ";
      for (std::size_t k = 0; k < inputs; ++k) {
        if (!holds(launch.op.inputs[k], launch.operands[k])) return where + "an input was overwritten before";
      }
      const auto workspace = static_cast<std::int64_t>(program_.graph.values.size() + i);
      if (!write(workspace, launch.workspace.offset, launch.workspace_bytes))
        return where + "workspace outside scratch";
      for (std::size_t k = 0; k < launch.op.outputs.size(); ++k) {
        const Operand& operand = launch.operands[inputs + k];
        if (operand.region != Region::scratch) continue;
        if (!write(launch.op.outputs[k], operand.offset, bytes(launch.op.outputs[k]))) return where + "output outside";
      }
      for (std::size_t k = 0; k < launch.operands.size(); ++k) {
        const ValueId id = k < inputs ? launch.op.inputs[k] : launch.op.outputs[k - inputs];
        if (!holds(id, launch.operands[k])) return where + "operands overlap";
      }
      if (!owns(workspace, launch.workspace.offset, launch.workspace_bytes)) return where + "the workspace overlaps";
    }
    return "";
  }

 private:
  Bytes bytes(ValueId id) const { return program_.graph.value(id).bytes(); }

  bool holds(ValueId id, const Operand& operand) const {
    return operand.region != Region::scratch || owns(id, operand.offset, bytes(id));
  }
  bool owns(std::int64_t name, Bytes offset, Bytes size) const {
    if (offset + size > owner_.size()) return false;
    return std::all_of(owner_.begin() + static_cast<std::ptrdiff_t>(offset),
                       owner_.begin() + static_cast<std::ptrdiff_t>(offset + size),
                       [&](std::int64_t owner) { return owner == name; });
  }
  bool write(std::int64_t name, Bytes offset, Bytes size) {
    if (offset + size > owner_.size()) return false;
    std::fill_n(owner_.begin() + static_cast<std::ptrdiff_t>(offset), size, name);
    return true;
  }

  const Program& program_;
  std::vector<std::int64_t> owner_;  // per byte of scratch
};

using Random = std::mt19937_64;

// Ops of random kinds on random earlier values, so that lifetimes are long, short and crossing.
Graph random_graph(Random& random) {
  const DType dtype = random() % 2 ? DType::f32 : DType::bf16;
  const std::int64_t width = 4 * (1 + static_cast<std::int64_t>(random() % 8));
  compiler::GraphBuilder builder("random");
  compiler::Wire wire(builder, dtype);
  const ValueId square = wire("square", {width, width}), bias = wire("bias", {width}), gain = wire("gain", {width});
  const ValueId triple = wire("triple", {3 * width, width});
  std::vector<ValueId> known = {builder.bound(Region::input, "x", dtype, {6, width})};
  for (int ops = 3 + static_cast<int>(random() % 20); ops > 0; --ops) {
    const ValueId a = known[random() % known.size()], b = known[random() % known.size()];
    switch (random() % 7) {
      case 0:
        known.push_back(builder.gelu(a));
        break;
      case 1:
        known.push_back(builder.add(a, b));
        break;
      case 2:
        known.push_back(builder.layer_norm(a, gain, bias, 1e-5f));
        break;
      case 3:
        known.push_back(builder.linear(a, square, bias));
        break;
      case 4:
        known.push_back(builder.dropout(a, 0.5f));
        break;
      case 5:
        known.push_back(builder.core_attention(builder.linear_transposed(a, triple),
                                               {.probability = 0.5f, .heads = 2, .sequence = 3}));
        break;
      default:
        known.push_back(
            builder.attention(builder.linear_transposed(a, triple), {.probability = 0, .heads = 2, .sequence = 3}));
        break;
    }
  }
  builder.place(builder.gelu(builder.add(known.back(), known.front())), Region::output);
  return builder.finish();
}

Program random_program(Random& random, const Graph& graph) {
  return plan_program(graph, [&](const Graph&, std::size_t) { return random() % 3 ? 0 : random() % 3000; });
}

Bytes sum_of_scratch(const Program& program) {
  Bytes sum = 0;
  for (const Launch& launch : program.launches) {
    sum += launch.workspace_bytes;
    for (std::size_t k = launch.op.inputs.size(); k < launch.operands.size(); ++k) {
      if (launch.operands[k].region != Region::scratch) continue;
      sum += program.graph.value(launch.op.outputs[k - launch.op.inputs.size()]).bytes();
    }
  }
  return sum;
}

TEST(Program, NoReadFindsOverwrittenBytes) {
  Random random(5);
  Bytes planned = 0, without_reuse = 0;
  for (int i = 0; i < 150; ++i) {
    const Graph forward = random_graph(random);
    for (const Graph& graph : {forward, compiler::differentiate(forward)}) {
      const Program program = random_program(random, graph);
      ASSERT_EQ(ByteMap(program).run(), "") << "graph " << i;
      planned += program.scratch_bytes;
      without_reuse += sum_of_scratch(program);
    }
  }
  EXPECT_LT(planned, without_reuse * 3 / 4);  // bytes are used again
}

// Negative control: two scratch values of one program exchanged or put on top of one another.
TEST(Program, SimulationCatchesAMovedValue) {
  Random random(6);
  int moved = 0;
  for (int i = 0; i < 50; ++i) {
    const Graph graph = compiler::differentiate(random_graph(random));
    Program program = random_program(random, graph);
    // An op that reads two different scratch values, the second put onto the first wherever it occurs.
    for (const Launch& launch : program.launches) {
      if (launch.op.inputs.size() < 2 || launch.op.inputs[0] == launch.op.inputs[1]) continue;
      if (launch.operands[0].region != Region::scratch || launch.operands[1].region != Region::scratch) continue;
      const ValueId victim = launch.op.inputs[1];
      const Bytes target = launch.operands[0].offset;
      for (Launch& other : program.launches) {
        for (std::size_t k = 0; k < other.operands.size(); ++k) {
          const std::size_t inputs = other.op.inputs.size();
          if ((k < inputs ? other.op.inputs[k] : other.op.outputs[k - inputs]) == victim)
            other.operands[k].offset = target;
        }
      }
      EXPECT_NE(ByteMap(program).run(), "") << "graph " << i;
      ++moved;
      break;
    }
  }
  EXPECT_GT(moved, 20);
}

TEST(Program, OperandsAreInputsThenOutputsWhereTheyLive) {
  const Graph graph = compiler::example_block({});
  const Program program =
      plan_program(graph, [](const Graph&, std::size_t i) { return i == 2 ? Bytes{100} : Bytes{0}; });
  ASSERT_EQ(program.launches.size(), graph.ops.size());
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Launch& launch = program.launches[i];
    EXPECT_EQ(launch.op.kind, graph.ops[i].kind);
    std::vector<ValueId> ids = graph.ops[i].inputs;
    ids.insert(ids.end(), graph.ops[i].outputs.begin(), graph.ops[i].outputs.end());
    ASSERT_EQ(launch.operands.size(), ids.size());
    for (std::size_t k = 0; k < ids.size(); ++k) {
      EXPECT_EQ(launch.operands[k].region, graph.value(ids[k]).region);
      if (launch.operands[k].region == Region::scratch) {
        EXPECT_EQ(launch.operands[k].offset % 64, 0u);
      } else {
        EXPECT_EQ(launch.operands[k].offset, graph.value(ids[k]).offset);
      }
    }
    EXPECT_EQ(launch.workspace.region, Region::scratch);
    EXPECT_EQ(launch.workspace.offset % 64, 0u);
    EXPECT_EQ(launch.workspace_bytes, i == 2 ? 100u : 0u);
  }
}

TEST(Program, WithoutScratch) {
  Graph drain;
  drain.name = "drain";
  drain.values = {{"sum", DType::f32, {1, 9}, Region::gradients, 8}, {"rounded", DType::bf16, {1, 9}, Region::drained}};
  drain.ops = {{compiler::OpKind::convert, {0}, {1}, {}}};
  const Program program = plan_program(drain, [](const Graph&, std::size_t) { return Bytes{0}; });
  EXPECT_EQ(program.scratch_bytes, 0u);
  EXPECT_EQ(program.launches[0].operands[0].offset, 8u);
}

TEST(Program, RefusesGraphsThatDoNotValidate) {
  Graph broken = compiler::example_block({});
  std::swap(broken.ops[0], broken.ops[1]);
  EXPECT_THROW(plan_program(broken, [](const Graph&, std::size_t) { return Bytes{0}; }), Error);
}

}  // namespace
}  // namespace l2l::compiler

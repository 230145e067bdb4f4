// The brute-force judge: it walks through every state of ops not started, running and finished that streams and events
// allow, and checks whether two tensors alive in one state overlap in a plan. It knows nothing of clocks or ancestors.
#include <gtest/gtest.h>

#include <cstdlib>

#include "compiler/memory/greedy.h"
#include "compiler/memory/planner.h"
#include "l2l/errors.h"
#include "tests/compiler/memory/random_programs.h"

namespace l2l::compiler::memory {
namespace {

using Ops = std::uint32_t;  // a bit for each

class Judge {
 public:
  explicit Judge(const StreamProgram& program) : program_(program), waits_(program.ops.size(), 0) {
    std::vector<Ops> before(program.streams, 0);
    for (std::size_t op = 0; op < program.ops.size(); ++op) {
      waits_[op] = before[program.ops[op]];
      before[program.ops[op]] |= Ops{1} << op;
    }
    for (const Event& event : program.events) waits_[event.before] |= Ops{1} << event.after;
    for (const StreamTensor& tensor : program.tensors) {
      Ops users = Ops{1} << tensor.producer;
      for (const Index op : tensor.consumers) users |= Ops{1} << op;
      users_.push_back(users);
    }
  }

  // Whether no two tensors alive at once overlap, over all states that can be reached.
  bool accepts(const std::vector<Bytes>& offsets) {
    find_overlaps(offsets);
    seen_.assign(kStates, 0);
    states_ = {{0, 0}};
    seen_[0] = 1;
    for (std::size_t i = 0; i < states_.size(); ++i) {
      const auto [started, finished] = states_[i];
      if (clash(started, finished)) return false;
      for (std::size_t op = 0; op < waits_.size(); ++op) {
        const Ops bit = Ops{1} << op;
        if (!(started & bit)) {
          if ((waits_[op] & ~finished) == 0) reach(started | bit, finished);
        } else if (!(finished & bit)) {
          reach(started, finished | bit);
        }
      }
    }
    return true;
  }

  std::size_t states() const { return states_.size(); }

 private:
  struct State {
    Ops started, finished;
  };
  static constexpr std::size_t kStates = std::size_t{1} << 12;  // 12 ops on 4 streams have at most 7^4

  void reach(Ops started, Ops finished) {
    const std::uint64_t key = std::uint64_t{started} << 16 | finished;
    for (std::size_t slot = key * 0x9E3779B97F4A7C15u >> 52;; slot = (slot + 1) % kStates) {
      if (seen_[slot] == key + 1) return;
      if (seen_[slot] != 0) continue;
      seen_[slot] = key + 1;
      states_.push_back({started, finished});
      return;
    }
  }

  bool alive(std::size_t t, Ops started, Ops finished) const {
    if (program_.tensors[t].lifelong) return true;
    return (started >> program_.tensors[t].producer & 1) != 0 && (users_[t] & ~finished) != 0;
  }

  bool clash(Ops started, Ops finished) {
    std::uint32_t living = 0, forbidden = 0;
    for (std::size_t t = 0; t < users_.size(); ++t) {
      if (!alive(t, started, finished)) continue;
      living |= std::uint32_t{1} << t;
      forbidden |= overlaps_[t];
    }
    return (living & forbidden) != 0;
  }

  // Of each tensor, the others that share a byte with it in the plan.
  void find_overlaps(const std::vector<Bytes>& offsets) {
    overlaps_.assign(users_.size(), 0);
    for (std::size_t a = 0; a < users_.size(); ++a) {
      for (std::size_t b = 0; b < users_.size(); ++b) {
        const bool apart =
            offsets[a] + program_.tensors[a].size <= offsets[b] || offsets[b] + program_.tensors[b].size <= offsets[a];
        if (!apart && a != b) overlaps_[a] |= std::uint32_t{1} << b;
      }
    }
  }

  const StreamProgram& program_;
  std::vector<Ops> waits_, users_;
  std::vector<std::uint32_t> overlaps_;
  std::vector<std::uint64_t> seen_;  // hashed; 0: free
  std::vector<State> states_;
};

int programs() { return std::getenv("L2L_LONG_TESTS") ? 1'000'000 : 20'000; }

// A program and its plan by one of the greedy solvers, all of them in turn.
struct Planned {
  StreamProgram program;
  Problem problem;
  Plan plan;

  Planned(Random& random, int i) : program(RandomProgram(random, {12, 4, 14, 4, 64}).take()), problem(lower(program)) {
    static const std::vector<Greedy> kSolvers = all_greedy();
    const Blocks blocks(problem);
    plan = blocks.plan(place(blocks, kSolvers[static_cast<std::size_t>(i) % kSolvers.size()]).offsets);
  }
};

TEST(Judge, NoTwoTensorsAliveInOneStateOverlap) {
  Random random(1);
  std::size_t states = 0, shared = 0;
  for (int i = 0; i < programs(); ++i) {
    const Planned planned(random, i);
    Judge judge(planned.program);
    ASSERT_TRUE(judge.accepts(planned.plan.offsets)) << "program " << i;
    ASSERT_EQ(validate(planned.problem, planned.plan), "") << "program " << i;
    states += judge.states();
    Bytes sum = 0;
    for (const Tensor& tensor : planned.problem.tensors) sum += tensor.size;
    shared += planned.plan.footprint < sum;
  }
  EXPECT_GT(shared, static_cast<std::size_t>(programs()) / 4) << "plans that share no memory prove nothing";
  RecordProperty("states", std::to_string(states));
}

// Negative control: without an event that it needs, a plan is not safe. The judge finds an unsafe state exactly when
// the validator rejects the plan for the program without the event, or lower() rejects that program.
TEST(Judge, AMissingEventIsFlagged) {
  Random random(2);
  int needed = 0, refused = 0, needless = 0;
  for (int i = 0; i < programs() / 4; ++i) {
    const Planned planned(random, i);
    for (std::size_t e = 0; e < planned.program.events.size(); ++e) {
      StreamProgram without = planned.program;
      without.events.erase(without.events.begin() + static_cast<std::ptrdiff_t>(e));
      Problem problem;
      try {
        problem = lower(without);
      } catch (const BadInput&) {
        ++refused;
        continue;
      }
      const bool safe = validate(problem, planned.plan).empty();
      ASSERT_EQ(Judge(without).accepts(planned.plan.offsets), safe) << "program " << i << ", event " << e;
      ++(safe ? needless : needed);
    }
  }
  EXPECT_GT(needed, programs() / 200);
  EXPECT_GT(refused, programs() / 100);
  EXPECT_GT(needless, programs() / 100);
}

// Each pair of tensors by itself, at one address: the judge accepts exactly those that clocks call safe.
TEST(Judge, SafePairsAreExactlyThoseNeverAliveAtOnce) {
  Random random(3);
  for (int i = 0; i < programs() / 40; ++i) {
    const StreamProgram program = RandomProgram(random, {12, 4, 6, 4, 64}).take();
    const Problem problem = lower(program);
    Judge judge(program);
    for (Index a = 0; a < program.tensors.size(); ++a) {
      for (Index b = 0; b < a; ++b) {
        std::vector<Bytes> offsets;
        for (Index t = 0; t < program.tensors.size(); ++t) offsets.push_back(t == a || t == b ? 0 : (t + 1) * 1000);
        const bool safe = judge.accepts(offsets);
        ASSERT_EQ(safe, done_before(problem, a, b) || done_before(problem, b, a)) << "program " << i;
      }
    }
  }
}

}  // namespace
}  // namespace l2l::compiler::memory

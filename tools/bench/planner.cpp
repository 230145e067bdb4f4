#include "tools/bench/benches.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <random>
#include <thread>

#include "base/json.h"
#include "compiler/memory/greedy.h"
#include "compiler/memory/planner.h"
#include "compiler/memory/portfolio.h"
#include "l2l/errors.h"
#include "tools/bench/layer_streams.h"
#include "tools/bench/safe_pairs.h"

namespace l2l::tools {
namespace {

namespace memory = compiler::memory;
using Random = std::mt19937_64;
constexpr std::chrono::seconds kLongest{4};  // of a search that does not reach the bound

template <typename Work>
double seconds_of(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Naive (every tensor by itself), single object and many objects by size, the portfolio, and the bound.
nlohmann::ordered_json row_of(const std::string& name, const memory::Problem& problem) {
  Bytes naive = 0;
  for (const memory::Tensor& tensor : problem.tensors) naive += align_up(tensor.size, problem.alignment);
  const memory::Blocks blocks(problem);
  const auto footprint = [&](memory::Method method) {
    return blocks.plan(place(blocks, {method, memory::Order::size, memory::Fit::best}).offsets).footprint;
  };
  memory::Solution solution;
  memory::PortfolioOptions options;
  options.steps = ~std::uint64_t{0};
  options.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  options.deadline = std::chrono::steady_clock::now() + kLongest;
  const double seconds = seconds_of([&] { solution = memory::solve(problem, options); });
  const std::string wrong = memory::validate(problem, solution.plan);
  if (!wrong.empty()) throw Error(name + ": the plan is wrong: " + wrong);
  const auto bound = static_cast<double>(solution.bound.bytes);
  return {{"program", name},
          {"tensors", problem.tensors.size()},
          {"naive", naive},
          {"single_object", footprint(memory::Method::single_object)},
          {"many_objects", footprint(memory::Method::many_objects)},
          {"planned", solution.plan.footprint},
          {"bound", solution.bound.bytes},
          {"error_percent", 100 * (static_cast<double>(solution.plan.footprint) - bound) / bound},
          {"seconds", seconds}};
}

// 500 groups that each travel at once and die tensor by tensor, among as many single tensors.
memory::Problem groups_problem() {
  Random random(1);
  const auto below = [&](std::uint64_t limit) { return static_cast<memory::Time>(random() % limit); };
  memory::Problem problem;
  for (int g = 0; g < 500; ++g) {
    std::vector<memory::Index> group;
    const memory::Time begin = below(1000);
    for (memory::Time left = 2 + below(7); left > 0; --left) {
      const auto size = static_cast<Bytes>(1 + below(1 << 20));
      group.push_back(problem.add({"group", size}, begin, begin + 1 + below(60)));
    }
    problem.groups.push_back(std::move(group));
    const memory::Time alone = below(1000);
    problem.add({"single", static_cast<Bytes>(1 + below(1 << 20))}, alone, alone + 1 + below(60));
  }
  return problem;
}

// A relay of 250 blocks of GPT-2 XL's shape, everything in one arena: the weights of each visit are one transfer,
// contiguous and fetched a visit ahead; activations wait for their backward; gradients leave a visit later.
memory::Problem relay_problem() {
  constexpr memory::Time kBlocks = 250;
  constexpr Bytes kHidden = 1600, kBytes = 2;
  constexpr Bytes kWeights[] = {kHidden, kHidden, 3 * kHidden * kHidden, 3 * kHidden, kHidden * kHidden,     kHidden,
                                kHidden, kHidden, 4 * kHidden * kHidden, 4 * kHidden, 4 * kHidden * kHidden, kHidden};
  memory::Problem problem;
  for (memory::Time visit = 1; visit <= 2 * kBlocks; ++visit) {
    std::vector<memory::Index>& group = problem.groups.emplace_back();
    for (const Bytes elements : kWeights)
      group.push_back(problem.add({"weight", elements * kBytes}, visit - 1, visit + 1));
    const bool backward = visit > kBlocks;
    for (const Bytes width : {3, 1, 4}) {
      problem.add({"scratch", width * kHidden * 4096 * kBytes}, visit, visit + 1);
    }
    if (!backward) problem.add({"activation", kHidden * 4096 * kBytes}, visit, 2 * kBlocks + 2 - visit);
    if (!backward) continue;
    for (const Bytes elements : kWeights) problem.add({"gradient", elements * kBytes}, visit, visit + 2);
  }
  return problem;
}

// 500 groups whose tensors live and die one by one, put at places of chance that are free within a height; at one
// moment single tensors fill what is left of it. So the height is both the bound and a footprint that some plan has.
memory::Problem planted_groups() {
  constexpr Bytes kHeight = Bytes{1} << 26, kAlignment = 64;
  constexpr memory::Time kTimes = 1000, kFull = 500;
  struct Box {
    memory::Time begin, end;
    Bytes low, high;
  };
  Random random(3);
  const auto below = [&](std::uint64_t limit) { return random() % limit; };
  memory::Problem problem;
  std::vector<Box> boxes;
  const auto free = [&](const Box& box) {
    return std::none_of(boxes.begin(), boxes.end(), [&](const Box& other) {
      return box.begin < other.end && other.begin < box.end && box.low < other.high && other.low < box.high;
    });
  };
  while (problem.groups.size() < 500) {
    Bytes at = below(kHeight / kAlignment) * kAlignment;
    std::vector<Box> group;
    const auto around = static_cast<memory::Time>(below(kTimes));
    for (std::uint64_t left = 2 + below(7); left > 0; --left) {
      const Bytes size = (1 + below(1 << 13)) * kAlignment;
      const auto begin = around - static_cast<memory::Time>(below(30));
      group.push_back({begin, around + 1 + static_cast<memory::Time>(below(60)), at, at + size});
      at += size;
    }
    if (at > kHeight || !std::all_of(group.begin(), group.end(), free)) continue;
    std::vector<memory::Index>& members = problem.groups.emplace_back();
    for (const Box& box : group) members.push_back(problem.add({"group", box.high - box.low}, box.begin, box.end));
    boxes.insert(boxes.end(), group.begin(), group.end());
  }
  std::vector<Box> full;
  std::copy_if(boxes.begin(), boxes.end(), std::back_inserter(full),
               [](const Box& box) { return box.begin <= kFull && kFull < box.end; });
  std::sort(full.begin(), full.end(), [](const Box& a, const Box& b) { return a.low < b.low; });
  full.push_back({0, 0, kHeight, kHeight});
  Bytes low = 0;
  for (const Box& box : full) {
    if (box.low > low) problem.add({"single", box.low - low}, kFull, kFull + 1);
    low = box.high;
  }
  return problem;
}

// Tensors that each op writes, read a few ops later, on eight streams that wait for each other now and then.
memory::StreamProgram large_program(std::size_t tensors) {
  Random random(2);
  memory::StreamProgram program;
  program.streams = 8;
  for (memory::Index op = 0; op < tensors; ++op) {
    program.ops.push_back(random() % program.streams);
    if (op > 100 && random() % 2) program.events.push_back({op - 1 - static_cast<memory::Index>(random() % 100), op});
    program.tensors.push_back({"", 64, op});
  }
  const memory::OpOrder order(program);
  for (memory::Index op = 0; op + 200 < tensors; ++op) {
    const memory::Index reader = op + 1 + static_cast<memory::Index>(random() % 200);
    if (order.before(op, reader)) program.tensors[op].consumers.push_back(reader);
  }
  return program;
}

nlohmann::ordered_json safe_pairs() {
  const memory::StreamProgram program = large_program(20'000);
  std::uint64_t by_clocks = 0, by_rows = 0;
  const double clocks = seconds_of([&] { by_clocks = memory::count_safe_pairs(memory::lower(program)); });
  const double rows = seconds_of([&] {
    const memory::AncestorRows ancestors(program);
    for (const memory::StreamTensor& p : program.tensors) {
      for (const memory::StreamTensor& q : program.tensors) by_rows += ancestors.done_before(p, q);
    }
  });
  if (by_clocks != by_rows) throw Error("clocks and ancestors disagree about safe pairs");
  return {{"tensors", program.tensors.size()},
          {"streams", program.streams},
          {"pairs", by_clocks},
          {"clocks_seconds", clocks},
          {"ancestors_seconds", rows}};
}

double mib(const nlohmann::ordered_json& bytes) { return bytes.get<double>() / static_cast<double>(kMiB); }

void print(const nlohmann::ordered_json& all) {
  std::printf("%-26s %8s %10s %10s %10s %10s %10s %8s %8s\n", "program", "tensors", "naive MiB", "single", "many",
              "planned", "bound", "error %", "seconds");
  for (const auto& row : all["programs"]) {
    std::printf("%-26s %8d %10.2f %10.2f %10.2f %10.2f %10.2f %8.3f %8.3f\n", row["program"].get<std::string>().c_str(),
                row["tensors"].get<int>(), mib(row["naive"]), mib(row["single_object"]), mib(row["many_objects"]),
                mib(row["planned"]), mib(row["bound"]), row["error_percent"].get<double>(),
                row["seconds"].get<double>());
  }
  const auto& safe = all["safe_pairs"];
  std::printf("safe pairs of %d tensors on %d streams: %.3f s by clocks, %.3f s by rows of ancestors, the same %llu\n",
              safe["tensors"].get<int>(), safe["streams"].get<int>(), safe["clocks_seconds"].get<double>(),
              safe["ancestors_seconds"].get<double>(), safe["pairs"].get<unsigned long long>());
}

}  // namespace

int bench_planner(bool json) {
  nlohmann::ordered_json all;
  for (const NamedStreams& its : known_layer_streams()) {
    all["programs"].push_back(row_of(its.name, memory::lower(its.program)));
  }
  all["programs"].push_back(row_of("500 groups, relay", relay_problem()));
  all["programs"].push_back(row_of("500 groups, planted", planted_groups()));
  all["programs"].push_back(row_of("500 groups, random", groups_problem()));
  all["safe_pairs"] = safe_pairs();
  if (json) {
    std::cout << json_text(all) << std::endl;
  } else {
    print(all);
  }
  return kSuccess;
}

}  // namespace l2l::tools

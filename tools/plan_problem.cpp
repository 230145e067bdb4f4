#include "tools/plan_modes.h"

#include <algorithm>
#include <iostream>
#include <sstream>
#include <thread>

#include "base/json.h"
#include "compiler/memory/csv.h"
#include "compiler/memory/planner.h"
#include "compiler/memory/portfolio.h"
#include "compiler/memory/svg.h"
#include "l2l/errors.h"
#include "tools/output_file.h"

namespace l2l::tools {
namespace {

namespace memory = compiler::memory;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostNamed = 100;
const std::vector<std::string> kSolvers = {"portfolio", "greedy", "exact", "local"};  // as memory::Solver

// Tensors of the certificate, largest first.
std::vector<memory::Index> peak_of(const memory::Problem& problem, const memory::Bound& bound) {
  std::vector<memory::Index> peak = bound.tensors;
  std::stable_sort(peak.begin(), peak.end(),
                   [&](memory::Index a, memory::Index b) { return problem.tensors[a].size > problem.tensors[b].size; });
  return peak;
}

nlohmann::ordered_json json_of(const memory::Problem& problem, const memory::Solution& solution, double seconds) {
  nlohmann::ordered_json peak = nlohmann::ordered_json::array(), curve = nlohmann::ordered_json::array();
  for (const memory::Index t : peak_of(problem, solution.bound)) {
    if (peak.size() == kMostNamed) break;
    peak.push_back(
        {{"id", problem.tensors[t].name}, {"size", problem.tensors[t].size}, {"offset", solution.plan.offsets[t]}});
  }
  for (const memory::Solution::Step& step : solution.curve) {
    curve.push_back({{"seconds", step.seconds}, {"footprint", step.footprint}, {"solver", step.solver}});
  }
  const auto bound = static_cast<double>(solution.bound.bytes);
  return {{"buffers", problem.tensors.size()},
          {"streams", problem.streams},
          {"bound", solution.bound.bytes},
          {"certificate", memory::name_of(solution.bound.certificate)},
          {"footprint", solution.plan.footprint},
          {"ratio", bound > 0 ? static_cast<double>(solution.plan.footprint) / bound : 1.0},
          {"smallest", solution.complete},
          {"solver", solution.solver},
          {"seconds", seconds},
          {"curve", curve},
          {"peak_buffers", solution.bound.tensors.size()},
          {"peak", peak}};
}

// A plan of --output has offsets, which a problem need not have.
bool is_plan(std::string_view beginning) {
  return beginning.substr(0, beginning.find('\n')).find("offset") != std::string_view::npos;
}

bool is_drawing(std::string_view beginning) { return beginning.starts_with("<svg "); }

template <typename Write>
void write_file(const std::string& file, const std::string& option, IsOurs ours, const Write& write) {
  std::ostringstream text;
  write(text);
  make_room(file, option, ours);
  replace_file(file, text.str());
}

}  // namespace

void ProblemArguments::add_to(Command& command) {
  const std::string given = "--problem";
  command.add(given, &problem, "plan the allocation problem in this CSV file (id,lower,upper,size)");
  command.add("--output", &output, "write the problem with its offsets to this CSV file", {.needs = given});
  command.add("--svg", &svg, "draw the plan into this file", {.needs = given});
  command.add("--seconds", &seconds, "stop searching for a smaller plan after this long, reading included",
              {.least = 0, .most = 1e6, .needs = given});
  command.add("--solver", &solver, "greedy, exact or local alone, or all of them: portfolio",
              {.one_of = kSolvers, .needs = given});
  command.add("--threads", &threads, "threads that search; 0: one per core",
              {.least = 0, .most = 1024, .needs = given});
  command.add("--seed", &seed, "of random choices", {.needs = given});
}

int plan_problem(const ProblemArguments& arguments) {
  const auto start = Clock::now();
  check_ours(arguments.output, "--output", is_plan);
  check_ours(arguments.svg, "--svg", is_drawing);
  check_apart({{"--output", arguments.output}, {"--svg", arguments.svg}});
  const memory::Problem problem = memory::read_csv(arguments.problem);
  memory::PortfolioOptions options;
  options.deadline =
      start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(arguments.seconds));
  options.steps = ~std::uint64_t{0};
  options.solver =
      static_cast<memory::Solver>(std::find(kSolvers.begin(), kSolvers.end(), arguments.solver) - kSolvers.begin());
  options.seed = arguments.seed;
  options.threads = arguments.threads > 0 ? arguments.threads : static_cast<int>(std::thread::hardware_concurrency());
  const memory::Solution solution = memory::solve(problem, options);
  const std::string wrong = memory::validate(problem, solution.plan);
  if (!wrong.empty()) throw Error(arguments.problem + ": the plan is wrong: " + wrong);
  const std::chrono::duration<double> seconds = Clock::now() - start;
  if (!arguments.output.empty()) {
    write_file(arguments.output, "--output", is_plan,
               [&](std::ostream& file) { memory::write_csv(file, problem, solution.plan); });
  }
  if (!arguments.svg.empty()) {
    write_file(arguments.svg, "--svg", is_drawing,
               [&](std::ostream& file) { memory::write_svg(file, problem, solution.plan, solution.bound.tensors); });
  }
  std::cout << json_text(json_of(problem, solution, seconds.count())) << std::endl;
  return kSuccess;
}

}  // namespace l2l::tools

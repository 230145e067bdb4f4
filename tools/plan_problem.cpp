#include "tools/plan_problem.h"

#include <algorithm>
#include <iostream>
#include <thread>

#include <nlohmann/json.hpp>

#include "device/planner/csv.h"
#include "device/planner/planner.h"
#include "device/planner/portfolio.h"
#include "device/planner/svg.h"
#include "l2l/errors.h"
#include "tools/command.h"

namespace l2l::tools {
namespace {

namespace planner = device::planner;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostNamed = 100;
const std::vector<std::string> kSolvers = {"portfolio", "greedy", "exact", "local"};  // as planner::Solver

// The tensors of the certificate, the largest first.
std::vector<planner::Index> peak_of(const planner::Problem& problem, const planner::Bound& bound) {
  std::vector<planner::Index> peak = bound.tensors;
  std::stable_sort(peak.begin(), peak.end(), [&](planner::Index a, planner::Index b) {
    return problem.tensors[a].size > problem.tensors[b].size;
  });
  return peak;
}

nlohmann::ordered_json json_of(const planner::Problem& problem, const planner::Solution& solution, double seconds) {
  nlohmann::ordered_json peak = nlohmann::ordered_json::array(), curve = nlohmann::ordered_json::array();
  for (const planner::Index t : peak_of(problem, solution.bound)) {
    if (peak.size() == kMostNamed) break;
    peak.push_back(
        {{"id", problem.tensors[t].name}, {"size", problem.tensors[t].size}, {"offset", solution.plan.offsets[t]}});
  }
  for (const planner::Solution::Step& step : solution.curve) {
    curve.push_back({{"seconds", step.seconds}, {"footprint", step.footprint}, {"solver", step.solver}});
  }
  const auto bound = static_cast<double>(solution.bound.bytes);
  return {{"buffers", problem.tensors.size()},
          {"streams", problem.streams},
          {"bound", solution.bound.bytes},
          {"certificate", planner::name_of(solution.bound.certificate)},
          {"footprint", solution.plan.footprint},
          {"ratio", bound > 0 ? static_cast<double>(solution.plan.footprint) / bound : 1.0},
          {"smallest", solution.complete},
          {"solver", solution.solver},
          {"seconds", seconds},
          {"curve", curve},
          {"peak_buffers", solution.bound.tensors.size()},
          {"peak", peak}};
}

}  // namespace

void ProblemArguments::add_to(CLI::App& app) {
  CLI::Option* const given =
      app.add_option("--problem", problem, "plan the allocation problem in this CSV file (id,lower,upper,size)");
  app.add_option("--output", output, "write the problem with its offsets to this CSV file")->needs(given);
  app.add_option("--svg", svg, "draw the plan into this file")->needs(given);
  app.add_option("--seconds", seconds, "stop searching for a smaller plan after this long, reading included")
      ->needs(given)
      ->check(CLI::Range(0.0, 1e6));
  app.add_option("--solver", solver, "greedy, exact or local alone, or all of them: portfolio")
      ->needs(given)
      ->check(CLI::IsMember(kSolvers));
  app.add_option("--threads", threads, "threads that search; 0: one per core")
      ->needs(given)
      ->check(CLI::Range(0, 1024));
  app.add_option("--seed", seed, "of random choices")->needs(given);
}

int plan_problem(const ProblemArguments& arguments) {
  const auto start = Clock::now();
  const planner::Problem problem = planner::read_csv(arguments.problem);
  planner::PortfolioOptions options;
  options.deadline =
      start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(arguments.seconds));
  options.steps = ~std::uint64_t{0};
  options.solver =
      static_cast<planner::Solver>(std::find(kSolvers.begin(), kSolvers.end(), arguments.solver) - kSolvers.begin());
  options.seed = arguments.seed;
  options.threads = arguments.threads > 0 ? arguments.threads : static_cast<int>(std::thread::hardware_concurrency());
  const planner::Solution solution = planner::solve(problem, options);
  const std::string wrong = planner::validate(problem, solution.plan);
  if (!wrong.empty()) throw Error(arguments.problem + ": the plan is wrong: " + wrong);
  const std::chrono::duration<double> seconds = Clock::now() - start;
  if (!arguments.output.empty()) planner::write_csv(arguments.output, problem, solution.plan);
  if (!arguments.svg.empty()) planner::write_svg(arguments.svg, problem, solution.plan, solution.bound.tensors);
  std::cout
      << json_of(problem, solution, seconds.count()).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
      << std::endl;
  return kSuccess;
}

}  // namespace l2l::tools

// Allocation problems as CSV: refused with BadInput, or planned with a plan that is valid.
#include <sstream>
#include <string>

#include "compiler/memory/csv.h"
#include "compiler/memory/planner.h"
#include "compiler/memory/portfolio.h"
#include "l2l/errors.h"
#include "tests/fuzz/target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace l2l;
  namespace memory = compiler::memory;
  std::istringstream stream(std::string(reinterpret_cast<const char*>(data), size));
  try {
    const memory::Problem problem = memory::read_csv(stream, "problem");
    // Planning takes a thousand times as long as reading: one problem in ten is planned, in few steps, and one in a
    // hundred has the time that a program's has.
    constexpr std::size_t kMost = 200;
    constexpr std::uint64_t kFewSteps = 200;
    if (problem.tensors.size() > kMost || size % 10 != 0) return 0;
    memory::PortfolioOptions options;
    if (size % 100 != 0) options.steps = kFewSteps;
    const memory::Plan plan = memory::solve(problem, options).plan;
    if (!memory::validate(problem, plan).empty()) __builtin_trap();
    std::ostringstream written;
    memory::write_csv(written, problem, plan);
    std::istringstream again(written.str());
    if (memory::read_csv(again, "written").tensors.size() != problem.tensors.size()) __builtin_trap();
  } catch (const BadInput&) {
  }
  return 0;
}

// One rank of the suite: mpirun -n N mpi_ranks. Exit status 1 where it found something wrong; rank 0 says that all is
// well.
#include <cstdio>
#include <string>
#include <vector>

#include "l2l/errors.h"
#include "tests/collectives/suite.h"

namespace {

using namespace l2l::collectives;

// --abort: the last rank ends the run. --throw: it throws while an exchange is under way. --less: rank 0 sends fewer
// bytes than are expected.
void misbehave(Collectives& ranks, const std::string& how) {
  const bool last = ranks.rank() == ranks.size() - 1;
  std::vector<std::byte> data(how == "--less" && ranks.rank() == 0 ? 5 : 8);
  if (how == "--abort" && last) ranks.abort("rank gives up");
  const auto exchange = ranks.broadcast(0, data);
  if (how == "--throw" && last) throw l2l::Error("rank has an error");
  exchange->wait();
  ranks.barrier();
}

int run(const std::string& how) {
  Collectives ranks(open_mpi());
  try {
    if (!how.empty()) misbehave(ranks, how);
  } catch (const l2l::Error& error) {
    ranks.abort(error.what());
  }
  const std::string wrong = testing::run_suite(ranks);
  if (!wrong.empty()) std::fprintf(stderr, "%s\n", wrong.c_str());
  if (ranks.rank() == 0 && wrong.empty()) std::printf("%d ranks\n", ranks.size());
  return wrong.empty() ? 0 : 1;
}

}  // namespace

int main(int count, char** words) {
  try {
    return run(count > 1 ? words[1] : "");
  } catch (const l2l::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

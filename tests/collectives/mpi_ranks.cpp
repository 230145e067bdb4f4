// One rank of the suite: mpirun -n N mpi_ranks. Exit status 1 where it found something wrong; rank 0 says that all is
// well.
#include <cstdio>
#include <cstring>

#include "l2l/errors.h"
#include "tests/collectives/suite.h"

namespace {

using namespace l2l::collectives;

int run(bool with_abort) {
  Collectives ranks(open_mpi());
  if (with_abort && ranks.rank() == ranks.size() - 1) ranks.abort("rank gives up");
  const std::string wrong = testing::run_suite(ranks);
  if (!wrong.empty()) std::fprintf(stderr, "%s\n", wrong.c_str());
  if (ranks.rank() == 0 && wrong.empty()) std::printf("%d ranks\n", ranks.size());
  return wrong.empty() ? 0 : 1;
}

}  // namespace

int main(int count, char** words) {
  try {
    return run(count > 1 && std::strcmp(words[1], "--abort") == 0);
  } catch (const l2l::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

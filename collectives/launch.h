// What launchers tell of the processes that they started together, in the environment.
#pragma once

#include <cstdlib>
#include <optional>

namespace l2l::collectives {

// How many there are, and which variable says so.
struct Launch {
  const char* variable;
  int processes;
};

// Of mpirun or srun; nothing where neither started this process.
inline std::optional<Launch> mpi_launch() {
  for (const char* const variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    if (const char* const value = std::getenv(variable)) return Launch{variable, std::atoi(value)};
  }
  return std::nullopt;
}

}  // namespace l2l::collectives

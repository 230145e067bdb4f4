// Whether a run may go on from a checkpoint.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "eps/checkpoint/checkpoint.h"
#include "models/hub/weights.h"
#include "runtime/plan/run_plan.h"

namespace l2l::runtime {

// Throws BadInput, naming the key and the way out, when the plan's run from the checkpoint in `folder` would not
// continue, bit for bit, the run that wrote it: another seed, other training data (unless data.allow_change is set, or
// data.train allowed), another microbatch where the checkpoint's could have been kept, other parameters that are
// trained, or another change of the options (runtime/resume_changes.h) that is not `allowed`. `data_hash`: of the
// training data; not looked at where there are none. Returns what to tell people of changes that it goes on with.
// Reads the manifest alone; throws CorruptFile.
std::vector<std::string> check_resumable(const RunPlan& plan, const std::filesystem::path& folder,
                                         std::uint64_t data_hash, const std::vector<std::string>& allowed);

// Throws BadInput where the seed of a state that was loaded is not the plan's.
void check_seed(const RunPlan& plan, const eps::SavedRun& state);

// Throws BadInput when the frozen parameters are not those that the checkpoint's run had. `base_hash`: of model.base.
void check_base(const RunPlan& plan, const eps::SavedRun& state, std::uint64_t base_hash);

// Says how many frozen parameters of the directory are kept in another type than theirs, if any are.
void tell_rounded(const RunPlan& plan, const models::HubWeights& weights);

// Warns when checkpoints newer than `used`, that of `step`, were passed over in `directory`.
void warn_of_lost_steps(const std::filesystem::path& directory, const std::filesystem::path& used, std::uint64_t step);

}  // namespace l2l::runtime

// How a run's options differ from those that its checkpoint was made with, and which differences it may go on with.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "l2l/options.h"
#include "runtime/options/resolved_options.h"

namespace l2l::runtime {

// Throws BadInput for a name in `allowed` that is no key ("optimizer.learning_rate" is one).
void check_keys(const std::vector<std::string>& allowed);

// Throws BadInput naming each key, both values and the way out: where the model has another shape than that of
// `folder`, made with the options `saved` by `saved_ranks` processes; and, if `trains`, where a key of the model, the
// optimizer or the order of the data has changed that is not in `allowed`. Returns what to tell people of the changes
// that it goes on with. Not compared are keys that other checks look at (seed, data, adapters, what is trained) and
// those that change no bits or that a run is free to change: its length, validations, saves.
std::vector<std::string> check_changes(const ResolvedOptions& ours, const Options& saved, int saved_ranks,
                                       const std::filesystem::path& folder, bool trains,
                                       const std::vector<std::string>& allowed);

// Which keys have changed that say how training data are read: "data.columns, data.separator"; may be empty.
std::string changed_reading(const Options& ours, const Options& saved);

}  // namespace l2l::runtime

// What is exported: a checkpoint or a model directory.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "core/bytes.h"
#include "core/weight_source.h"
#include "l2l/options.h"

namespace l2l::runtime {

// The checkpoint that is meant, or else the directory itself. Throws BadInput.
std::filesystem::path export_folder(const std::filesystem::path& source);
// The same, of checkpoints the newest whose weights are those that were written: reads all of them. Warns of those
// passed over. Throws BadInput, and CorruptFile where none is.
std::filesystem::path sound_export_folder(const std::filesystem::path& source);
// Of the run that made the checkpoint, or with the model in the directory. Throws BadInput.
Options exported_options(const std::filesystem::path& folder);
// The weights in it, adapters merged. `layout`: of exported_options() without adapters, with what is trained.
std::unique_ptr<WeightSource> exported_weights(const std::filesystem::path& folder, const Options& options,
                                               const ModelLayout& layout);
// The absolute path of an export to `target`, without a slash at its end. Throws BadInput where something is there,
// which asks for a new `what`.
std::filesystem::path export_place(const std::filesystem::path& target, const char* what);
// Calls `write` with a hidden name beside `place`, and gives what it has written there the name `place` when it is
// whole. Nothing stays where it throws. First removes what exports to `place` have left that were killed; warns of what
// cannot be removed. The folder of `place` exists.
void make_export(const std::filesystem::path& place, const std::function<void(const std::filesystem::path&)>& write);
// Throws BadInput where the disk of `folder` has fewer bytes free.
void require_room(const std::filesystem::path& folder, Bytes bytes);

}  // namespace l2l::runtime

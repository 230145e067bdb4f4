// What is exported: a checkpoint or a model directory.
#pragma once

#include <filesystem>

#include "core/bytes.h"
#include "l2l/options.h"

namespace l2l::runtime {

// The checkpoint that is meant, or else the directory itself. Throws BadInput.
std::filesystem::path export_folder(const std::filesystem::path& source);
// The model in it. Throws BadInput.
ModelOptions exported_model(const std::filesystem::path& folder);
// Throws BadInput where the disk of `folder` has fewer bytes free.
void require_room(const std::filesystem::path& folder, Bytes bytes);

}  // namespace l2l::runtime

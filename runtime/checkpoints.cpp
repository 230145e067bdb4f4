// Checkpoints of earlier runs, as the public API sees them.
#include "eps/checkpoint.h"

#include "core/log.h"
#include "eps/checkpoint_folders.h"
#include "eps/manifest.h"
#include "l2l/trainer.h"

namespace l2l {

Options checkpoint_options(const std::filesystem::path& directory) {
  const std::filesystem::path folder = eps::find_checkpoint(directory);
  return parse_options(eps::read_manifest(folder).state.config, (folder / eps::kManifestName).string() + " (config)");
}

void set_aside_checkpoints(const std::filesystem::path& directory, std::int64_t steps) {
  if (!std::filesystem::is_directory(directory)) return;
  std::vector<eps::CheckpointFolder> folders = eps::list_checkpoints(directory);
  std::erase_if(folders, [&](const auto& folder) { return static_cast<std::int64_t>(folder.step) <= steps; });
  if (folders.empty()) return;
  std::filesystem::path aside;
  for (int n = 1; aside.empty() || std::filesystem::exists(aside); ++n)
    aside = directory / ("earlier-" + std::to_string(n));
  try {
    std::filesystem::create_directory(aside);
    for (const eps::CheckpointFolder& folder : folders) {
      std::filesystem::rename(folder.path, aside / folder.path.filename());
    }
  } catch (const std::filesystem::filesystem_error& error) {
    throw Error(std::string("checkpoint.directory: cannot move earlier checkpoints aside: ") + error.what());
  }
  log(LogLevel::info, "checkpoints of an earlier run moved to " + aside.string());
}

}  // namespace l2l

// Checkpoints of a parameter store: safetensors and a manifest, written so that a reader sees either the old or the new
// one, always whole (law 6; docs/formats.md).
//
//   DIRECTORY/step-00000042/model.safetensors      F32 parameters under their layout names; a tied one once
//                           optimizer.safetensors  NAME.moment1 and, but for SGD, NAME.moment2
//                           manifest.json          the rest (eps/checkpoint/manifest.h)
//                           config.json, ...       for other programs (Companions); never read back
//
// Of several ranks each writes a part of either, with whole groups (ParameterStore::writer()):
//
//                           model-00001-of-00004.safetensors, ..., optimizer-00001-of-00004.safetensors, ...
//                           model.safetensors.index.json   the file of each weight, for other programs
//
// Beside it
//
//   DIRECTORY/step-00000042.old                    for a moment, while the same step is saved again
//   DIRECTORY/.step-00000042.tmp-PID               being written or removed; the next run clears what a crash left
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/dropout.h"
#include "core/kernel_choices.h"
#include "eps/parameter_store.h"
#include "eps/state_gather.h"
#include "eps/state_save.h"
#include "l2l/errors.h"

namespace l2l::eps {

// What a checkpoint holds besides the parameters.
struct SavedRun {
  std::uint64_t step = 0;            // completed steps
  std::uint64_t seed = 0;            // of the random numbers (counter-based: seed and step are their whole state)
  std::uint64_t data_position = 0;   // samples consumed
  std::string config = {};           // TOML, for people and tools
  std::uint64_t data_hash = 0;       // of the training data, in which data_position counts
  std::uint64_t tokenizer_hash = 0;  // of the run's tokenizer, whose files are beside the checkpoint; 0: it has none
  // Dynamic loss scaling: the scale, a power of two up to 2^24, or 0 for none; and the steps since it last changed.
  std::uint64_t loss_scale = 0, good_steps = 0;
  std::uint64_t base_hash = 0;                       // of the files that frozen parameters come from; 0: there are none
  bool without_frozen = false;                       // frozen parameters are in these files, not in the checkpoint
  std::vector<std::uint32_t> list = {};              // ids of layers, where they are exchanged; else empty
  DropoutMasks dropout_masks = DropoutMasks::words;  // of the run; checkpoints that do not say are of words
  KernelChoices kernels = {};                        // that were chosen by time; no device's where none were
};

// Files beside a checkpoint's own, which make its folder one that other programs load.
struct Companions {
  std::map<std::string, std::string> texts = {};  // by name
  // By name there, files that are copied byte by byte; one that cannot be read is warned of.
  std::map<std::string, std::filesystem::path> copies = {};
};

// Writes them into `folder`, fsync included. Throws Error.
void write_companions(const std::filesystem::path& folder, const Companions& companions);

// Temporary memory of saving and loading, the same for every model: a piece of a tensor and small buffers.
Bytes checkpoint_buffer_bytes();

// Writes `directory`/step-00000042: temporary folder, files, fsync of each, rename, fsync of `directory`. Then removes
// all but the newest `keep` checkpoints, never this one. `save` was just begun on `store`; training may go on
// meanwhile. Returns the folder. Throws Error naming the file; older checkpoints are then unchanged.
std::filesystem::path save_checkpoint(const std::filesystem::path& directory, const ParameterStore& store,
                                      StateSave save, const SavedRun& state, int keep,
                                      const Companions& companions = {});
// The same on each of several ranks, which all see `directory`: every one writes its part of a checkpoint, of which
// rank 0 makes the folder and, when all is on the disk, the manifest. `save` was begun on all between the same two
// steps. Throws FailureOfAll on all, or CorruptState where that is found, when any fails.
std::filesystem::path save_on_ranks(const std::filesystem::path& directory, const ParameterStore& store, StateSave save,
                                    const SavedRun& state, int keep, const Companions& companions, StateGather& gather);

// Where the checkpoints of a run lie, complete or not: `directory`; or, where it neither is one nor has any,
// `directory`/checkpoints if that has some, as in the folder of l2l-train --output.
std::filesystem::path checkpoints_directory(const std::filesystem::path& directory);

// The complete checkpoints in `directory` (a readable manifest, files of the stated sizes), newest first; or
// `directory` itself when it is one. At least one: throws BadInput when there is none. `warn`: of newer ones
// that are not complete.
std::vector<std::filesystem::path> find_checkpoints(const std::filesystem::path& directory, bool warn = false);
// What to throw after none of the checkpoints `folders`, found as above, could be loaded, the last for `error`.
CorruptFile none_is_sound(const std::vector<std::filesystem::path>& folders, const CorruptFile& error);
// The first of them, without a warning.
std::filesystem::path find_checkpoint(const std::filesystem::path& directory);

// The largest step in the names of checkpoints below `directory`, complete or not; 0 when there is none.
std::uint64_t newest_step(const std::filesystem::path& directory);

// Reads all bytes of a checkpoint's weights, not of its moments. Throws CorruptFile naming file and tensor where one
// was changed since it was written.
void verify_weights(const std::filesystem::path& folder);

// What several ranks read: one copy, of which each may verify a part for all, or each its own.
enum class CheckpointCopies : std::uint8_t { one, each };

// Validates every file against manifest and layout first, then restores the store. Throws CorruptFile naming file,
// tensor and reason, unless it is allowed also where a weight is not finite; the store is then unchanged, or, where a
// file can no longer be read once it was validated, in part that of the checkpoint. Any number of ranks may have saved
// it. With `gather` all of several ranks call it, each verifies the bytes, or of one copy a part of them, and all throw
// CorruptFile where one does.
SavedRun load_checkpoint(const std::filesystem::path& folder, ParameterStore& store, bool allow_nonfinite = false,
                         StateGather* gather = nullptr, CheckpointCopies copies = CheckpointCopies::one);

}  // namespace l2l::eps

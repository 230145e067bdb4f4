// Trainer: checkpoints, written and gone on from.
#include <algorithm>
#include <exception>
#include <sstream>

#include "core/allocator_roles.h"
#include "core/error_place.h"
#include "core/files.h"
#include "core/log.h"
#include "eps/checkpoint/checkpoint_folders.h"
#include "eps/checkpoint/manifest.h"
#include "runtime/hub_companions.h"
#include "runtime/plan/kernel_choices.h"
#include "runtime/plan/memory_contract.h"
#include "runtime/resume.h"
#include "runtime/trainer_implementation.h"
#include "text/tokenizer.h"

namespace l2l {

namespace {

// All ranks load what rank 0 has found, each by its own name of the directory.
std::vector<std::filesystem::path> found_by_first(runtime::Ranks& ranks, const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> folders;
  ranks.together([&] {
    if (ranks.rank() == 0) folders = eps::find_checkpoints(directory, /*warn=*/true);
  });
  if (!ranks.several()) return folders;
  std::string found;
  for (const std::filesystem::path& folder : folders) {
    found += (folder == directory ? "" : folder.filename().string()) + "\n";
  }
  std::istringstream lines(ranks.from_first(found));
  folders.clear();
  for (std::string line; std::getline(lines, line);) folders.push_back(line.empty() ? directory : directory / line);
  return folders;
}

// The name of a checkpoint in `directory`, as rank 0 sees it, however `checkpoint` is written: with a slash at its end,
// as ".", by a link. Empty where it lies elsewhere: whether there is something to save depends on it.
std::string name_in(runtime::Ranks& ranks, const std::filesystem::path& directory,
                    const std::filesystem::path& checkpoint) {
  std::error_code ignored;
  const std::filesystem::path place = std::filesystem::canonical(checkpoint, ignored);
  const bool inside = std::filesystem::equivalent(place.parent_path(), directory, ignored);
  return ranks.from_first(inside ? place.filename().string() : "");
}

}  // namespace

void Trainer::Implementation::restore(const eps::SavedRun& state) {
  runtime::check_seed(plan, state);
  runtime::check_base(plan, state, base_hash);
  if (!state.list.empty() && !list.empty()) set_layers(state.list);
  step = state.step;
  data_position = state.data_position;
  engine->set_dropout_masks(state.dropout_masks);
  optimizers::LossScaler& scaler = engine->loss_scaler();
  if (scaler.is_dynamic() && state.loss_scale > 0) {
    scaler.restore(static_cast<double>(state.loss_scale), state.good_steps);
  }
}

// Each once: resume() finds again what check_resume() has told.
void Trainer::Implementation::tell(const std::vector<std::string>& changes) {
  if (!writes()) return;
  for (const std::string& each : changes) {
    if (std::ranges::find(told, each) != told.end()) continue;
    log(LogLevel::warning, each);
    told.push_back(each);
  }
}

// A run that saves once alone needs room for one.
void Trainer::Implementation::check_room(eps::DirectoryUse use) const {
  const CheckpointOptions& checkpoint = plan.options.checkpoint;
  if (checkpoint.directory.empty() || !writes()) return;
  const bool once = checkpoint.every == 0 && checkpoint.minutes == 0;
  const int kept = static_cast<int>(checkpoint.keep) + (checkpoint.best.empty() ? 0 : 1);
  eps::CheckpointNeed need{checkpoint_size, once ? 1 : 2, once ? 1 : kept + 1};
  if (use == eps::DirectoryUse::stay) need.from_step = run.newest.step;  // before a resume it is not known
  eps::check_room(checkpoint.directory, need, use);
}

// Each rank writes its part of a checkpoint into a folder that the first has made.
void Trainer::Implementation::check_seen_by_all(eps::DirectoryUse use) {
  if (!ranks.several()) return;
  std::optional<eps::ProbeFolder> probe;
  std::string name;
  ranks.together([&] {
    if (writes()) name = probe.emplace(plan.options.checkpoint.directory, use).name();
  });
  name = ranks.from_first(name);
  std::exception_ptr refusal;
  try {
    if (!writes()) eps::check_probe(plan.options.checkpoint.directory, name, checkpoint_size);
  } catch (const std::exception&) {
    refusal = std::current_exception();
  }
  ranks.any(refusal != nullptr);  // all have looked
  probe.reset();                  // before a rank ends that refuses, with which a launcher may end this one
  ranks.together([&] {
    if (refusal) std::rethrow_exception(refusal);
  });
  seen_by_all = true;
}

std::int64_t Trainer::check_resume(const std::filesystem::path& directory,
                                   const std::vector<std::string>& allowed) const {
  Implementation& self = *implementation_;
  std::int64_t completed = 0;
  self.ranks.together([&] {
    const std::filesystem::path folder = eps::find_checkpoint(eps::checkpoints_directory(directory));
    self.tell(runtime::check_resumable(self.plan, folder, self.data_hash, allowed));
    completed = static_cast<std::int64_t>(eps::read_manifest(folder).state.step);
    if (completed > 0)
      static_cast<void>(runtime::BestCheckpoint(options(), self.run.validation_hash, completed, /*writes=*/false));
  });
  return completed;
}

std::filesystem::path Trainer::resume(const std::filesystem::path& run, const std::vector<std::string>& allowed) {
  Implementation& self = *implementation_;
  self.check_no_observer("resume");
  if (self.step > 0) throw Error("resume(): call it before the first step");
  finish_save();
  return self.guarded([&] { return self.resume(run, allowed); });
}

// Files of the run that are damaged, such as those of model.base, are no reason to try another checkpoint.
eps::ParameterStore& Trainer::Implementation::prepared_store() {
  try {
    return running().store();
  } catch (const CorruptFile& error) {
    throw BadInput(error.what(), error.place());
  }
}

std::filesystem::path Trainer::Implementation::resume(const std::filesystem::path& from,
                                                      const std::vector<std::string>& allowed) {
  const std::filesystem::path directory = eps::checkpoints_directory(from);
  const std::vector<std::filesystem::path> folders = found_by_first(ranks, directory);
  std::vector<std::string> changes;
  for (const std::filesystem::path& folder : folders) {
    const auto check = [&] {
      changes = runtime::check_resumable(plan, folder, data_hash, allowed);
      return ranks.several() ? InputFile(folder / eps::kManifestName).text() : std::string();
    };
    try {
      take_kernels(folder);
      if (ranks.several()) {
        prepared_store();
        ranks.require_alike(gather->together(check), [&](std::size_t rank, const auto&, const auto&) {
          throw BadInput(
              folder.string() + ": rank " + std::to_string(rank) + " has another checkpoint there than rank 0",
              of_file(folder.string()));
        });
      } else {
        check();
      }
      eps::ParameterStore& store = prepared_store();
      const std::string name = name_in(ranks, plan.options.checkpoint.directory, folder);
      const eps::CheckpointCopies copies =
          seen_by_all && !name.empty() ? eps::CheckpointCopies::one : eps::CheckpointCopies::each;
      const auto load = [&] {
        const RoleScope staging(MemoryRole::staging);
        return eps::load_checkpoint(folder, store, plan.options.run.allow_nonfinite, gather ? &*gather : nullptr,
                                    copies);
      };
      restore(load());
      if (plan.options.lora.rank == 0) companions_from = folder;
      tell(changes);
      if (writes() && plan.options.data.has_training()) runtime::warn_of_lost_steps(directory, folder, step);
      if (!name.empty()) {
        // One that is kept as the best may be replaced: the run then has to save what it goes on from.
        const bool stays = name == eps::folder_name(step);
        run.newest = {plan.options.checkpoint.directory / name, static_cast<std::int64_t>(step),
                      stays ? run.edits : -1};
      }
      return folder;
    } catch (const CorruptFile& error) {
      if (folder == folders.back()) throw eps::none_is_sound(folders, error);
      if (writes()) log(LogLevel::warning, std::string(error.what()) + "; trying an older checkpoint");
    }
  }
  throw Error("unreachable");
}

void Trainer::check_checkpoint_directory() const {
  Implementation& self = *implementation_;
  if (options().checkpoint.directory.empty()) return;
  self.ranks.together([&] {
    if (!self.writes()) return;
    if (!self.lock) eps::check_unlocked(options().checkpoint.directory);
    self.check_room(eps::DirectoryUse::look);
  });
  self.check_seen_by_all(eps::DirectoryUse::look);
}

void Trainer::claim_checkpoint_directory() {
  Implementation& self = *implementation_;
  const std::filesystem::path& directory = options().checkpoint.directory;
  if (directory.empty()) return;
  self.ranks.together([&] {
    if (!self.writes()) return;
    if (self.claimed) {
      if (self.lock && !self.lock->is_gone_from(directory)) return;
      if (is_there(directory) && !is_folder(directory)) return;  // as the save will say
      log(LogLevel::warning, "checkpoint.directory " + directory.string() +
                                 ": was moved or removed while this run saves there; it is made anew");
      make_folders(directory);
    } else {
      self.check_room(eps::DirectoryUse::stay);
    }
    self.lock.emplace(directory);
    eps::remove_stale(directory, self.lock->held());
  });
  if (self.claimed) return;
  const std::string& tokenizer = options().data.tokenizer;
  if (tokenizer != DataOptions().tokenizer && is_there(tokenizer)) self.tokenizer_hash = text::hash_of(tokenizer);
  self.check_seen_by_all(eps::DirectoryUse::stay);
  self.claimed = true;
}

void Trainer::prune_checkpoints(const std::filesystem::path& newest) {
  if (options().checkpoint.directory.empty()) return;
  if (!implementation_->claimed) claim_checkpoint_directory();
  if (!implementation_->writes()) return;
  eps::prune(options().checkpoint.directory, newest, static_cast<int>(options().checkpoint.keep));
}

void Trainer::start_save() {
  Implementation& self = *implementation_;
  self.check_no_observer("start_save");
  const CheckpointOptions& checkpoint = self.plan.options.checkpoint;
  if (checkpoint.directory.empty()) {
    throw BadInput("checkpoint.directory: not set; nowhere to save to", of_key("checkpoint.directory"));
  }
  finish_save();
  claim_checkpoint_directory();
  self.running();
  Options options = self.plan.options;
  options.lora.adapter.clear();  // what it brought is in the checkpoint
  options.device.threads = self.device_threads;
  options.eps.threads = self.eps_threads;
  eps::SavedRun state{self.step, self.plan.options.run.seed, self.data_position, to_toml(options), self.data_hash};
  state.tokenizer_hash = self.tokenizer_hash;
  state.base_hash = self.base_hash;
  state.without_frozen = self.base_hash != 0 && options.lora.rank > 0;
  state.list = self.list;
  state.dropout_masks = self.engine->dropout_masks();
  state.kernels = runtime::merged(runtime::kernel_choices(self.plan.devices), self.kernels);
  std::erase_if(state.kernels, [](const auto& device) { return device.second.empty(); });
  const optimizers::LossScaler& scaler = self.running().loss_scaler();
  if (scaler.is_dynamic()) {
    state.loss_scale = static_cast<std::uint64_t>(scaler.scale());
    state.good_steps = scaler.good_steps();
  }
  eps::Companions companions = runtime::hub_companions(self.plan.options.model, self.companions_from,
                                                       self.plan.options.data.tokenizer, self.tokenizer_hash);
  // No model that other programs could load.
  if (state.without_frozen || !options.model.blocks.empty()) companions.texts.erase("config.json");
  self.checkpoints->start(checkpoint.directory, state, static_cast<int>(checkpoint.keep), companions);
  self.saving = {{}, completed_steps(), self.run.edits};
}

bool Trainer::saving() const { return implementation_->checkpoints && implementation_->checkpoints->running(); }

std::filesystem::path Trainer::finish_save() {
  implementation_->check_no_observer("finish_save");
  if (!implementation_->checkpoints) return {};
  const ThreadActivity listed("relay", 0);
  const ActivitySpan span(Doing::rests, "the wait for a checkpoint");
  std::filesystem::path folder;
  try {
    folder = implementation_->checkpoints->finish();
  } catch (const CorruptState& error) {
    throw CorruptState(error.what() + implementation_->how_to_go_on());
  }
  if (folder.empty()) return folder;
  implementation_->run.newest = implementation_->saving;
  implementation_->run.newest.folder = folder;
  if (implementation_->plan.options.lora.rank == 0) implementation_->companions_from = folder;
  return folder;
}

std::filesystem::path Trainer::save() {
  implementation_->check_no_observer("save");
  start_save();
  return finish_save();
}

}  // namespace l2l

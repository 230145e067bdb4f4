// Trainer: kernels that devices choose by time, which all ranks and a resumed run take from the first.
#include "core/log.h"
#include "eps/checkpoint/manifest.h"
#include "runtime/plan/kernel_choices.h"
#include "runtime/plan/memory_contract.h"
#include "runtime/trainer_implementation.h"
#include "runtime/tuning/kept_kernels.h"

namespace l2l {

KernelChoices Trainer::Implementation::kernels_of_all(runtime::Ranks& others) const {
  KernelChoices all;
  for (const std::string& text : others.gather(runtime::to_text(runtime::kernel_choices(plan.devices)))) {
    all = runtime::merged(std::move(all), runtime::parse_kernel_choices(text));
  }
  return all;
}

void Trainer::Implementation::use_kernels(const KernelChoices& choices, const std::string& whose) {
  if (!engine) {
    if (!plan.take_kernels(choices)) return;
    log(LogLevel::info, "programs are compiled again with the kernels of " + whose + ", since bits depend on them");
    if (generation) generation = std::make_unique<runtime::GenerationPlan>(plan, generation->shape());
    count_memory();
    runtime::check_limits(plan, contract, runtime::Advice::planned);
  } else if (plan.has_other_kernels(choices)) {
    log(LogLevel::warning, "programs do not have the kernels of " + whose +
                               ", so last bits differ: make the Trainer from options_to_resume(), or resume() before "
                               "prepare()");
  }
}

// Every rank takes what rank 0 reads. Where rank 0 cannot, what checks the folder next says so on all.
void Trainer::Implementation::take_kernels(const std::filesystem::path& folder) {
  KernelChoices its;
  if (!ranks.several()) {
    its = eps::read_manifest(folder).state.kernels;
  } else {
    std::string text = runtime::to_text(its);
    try {
      if (ranks.rank() == 0) text = runtime::to_text(eps::read_manifest(folder).state.kernels);
    } catch (const BadInput&) {
    }
    its = runtime::parse_kernel_choices(ranks.from_first(text));
  }
  if (plan.options.device.kernels_from.empty()) runtime::warn_of_other_kernels(plan.devices, its, folder);
  const bool several = ranks.several();  // until one has refused them
  try {
    ranks.together([&] { runtime::taking_from(folder, [&] { use_kernels(its, folder.string()); }); });
  } catch (const CorruptFile& error) {
    if (!several) throw;
    throw BadInput(error.what(), error.place());  // the ranks have parted: there is no older checkpoint to try
  }
  kernels = runtime::merged(its, kernels);
}

}  // namespace l2l

// config.json and adapter_config.json of Hugging Face directories; the first byte says which. They are refused with
// BadInput, or give options of sizes that are positive.
#include "l2l/errors.h"
#include "models/hub/adapter.h"
#include "models/hub/config.h"
#include "tests/fuzz/target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace l2l;
  if (size == 0) return 0;
  try {
    if (data[0] == 'a') {
      const LoraOptions lora = models::read_adapter_config(fuzz::write_file("adapter_config.json", data + 1, size - 1));
      if (lora.rank < 1) __builtin_trap();
    } else {
      const std::filesystem::path file = fuzz::write_file("config.json", data + 1, size - 1);
      const ModelOptions model = models::read_hub_config(file);
      if (model.layers < 1 || model.hidden < 1 || model.heads < 1 || model.vocabulary < 1) __builtin_trap();
      static_cast<void>(models::hub_config(model, ""));
    }
  } catch (const BadInput&) {
  }
  return 0;
}

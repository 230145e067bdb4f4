#include "tools/train/allocator_json.h"

#include "l2l/allocator.h"

namespace l2l::tools {

nlohmann::ordered_json allocator_json() {
  const std::optional<AllocatorUse> use = allocator_use();
  if (!use) return nullptr;
  nlohmann::ordered_json roles;
  for (const AllocatorRole& role : use->roles) {
    roles[role.name] = {{"allocated", role.allocated}, {"resident", role.resident}};
  }
  return {{"name", use->allocator}, {"roles", roles}};
}

}  // namespace l2l::tools

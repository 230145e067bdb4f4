#pragma once

#include "base/json.h"

namespace l2l::tools {

// allocator_use(), as {"name", "roles": {ROLE: {"allocated", "resident"}, ...}}; null where there is none.
nlohmann::ordered_json allocator_json();

}  // namespace l2l::tools

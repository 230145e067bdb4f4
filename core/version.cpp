#include "l2l/version.h"

namespace l2l {

const char* version() { return L2L_VERSION; }

}  // namespace l2l

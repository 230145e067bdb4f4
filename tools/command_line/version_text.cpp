#include "tools/command_line/version_text.h"

#include "l2l/version.h"
#include "tools/command_line/build.h"

namespace l2l::tools {
namespace {

std::string row(std::string name, const std::string& value) {
  name.resize(18, ' ');
  return name + value + "\n";
}

}  // namespace

std::string version_text(const std::string& tool) {
  const std::string commit = build::kCommit;
  std::string text = tool + " " L2L_VERSION + (commit.empty() ? "" : " (" + commit + ")") + "\n";
  text += row("instruction set", instruction_set() + " (compiled in: " + build::kInstructionSets + ")");
  text += row("other code for", build::kCpu);
  for (const build::Library& library : build::kLibraries) text += row(library.name, library.state);
  return text;
}

}  // namespace l2l::tools

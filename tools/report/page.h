// The report of runs: one HTML file that needs nothing else.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tools/report/run_log.h"

namespace l2l::tools {

// A page with charts of all runs over each other, their last numbers, machines, warnings, memory and configs.
std::string report_page(const std::vector<RunLog>& runs);

// Whether a file that begins so is such a page.
bool is_report(std::string_view beginning);

// Reads the runs and writes their page to `file`, which appears whole. Throws BadInput, and Error when it cannot be
// written.
void write_report(const std::vector<std::filesystem::path>& runs, const std::filesystem::path& file);

}  // namespace l2l::tools

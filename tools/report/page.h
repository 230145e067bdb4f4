// The report of runs: one HTML file that needs nothing else.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tools/report/run_log.h"

namespace l2l::tools {

// A page with charts of all runs over each other, their last numbers, machines, warnings, memory and configs.
std::string report_page(std::span<const RunLog> runs);

// Whether a file that begins so is such a page.
bool is_report(std::string_view beginning);

}  // namespace l2l::tools

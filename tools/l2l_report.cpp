// l2l-report: draws what runs wrote with --metrics as one HTML file. Prints its name.
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "l2l/errors.h"
#include "tools/command.h"
#include "tools/output_file.h"
#include "tools/report/page.h"

int main(int argc, char** argv) {
  using namespace l2l::tools;
  std::vector<std::string> runs;
  std::string output;
  Command command("l2l-report", "Draws runs as one HTML file that needs nothing else.", [&] {
    std::error_code ignored;
    if (output.empty()) {
      const bool one_folder = runs.size() == 1 && std::filesystem::is_directory(runs.front(), ignored);
      output = (one_folder ? std::filesystem::path(runs.front()) / "report.html" : "report.html").string();
    }
    const std::filesystem::path folder = std::filesystem::absolute(output).parent_path();
    if (!std::filesystem::is_directory(folder, ignored)) {
      throw l2l::BadInput("--output " + output + ": " + folder.string() + " is not a directory");
    }
    check_ours(output, "--output", is_report);
    std::vector<RunLog> logs;
    for (const std::string& run : runs) logs.push_back(RunLogReader(run).read());
    replace_file(output, report_page(logs));
    std::cout << output << std::endl;
    return kSuccess;
  });
  command.add("RUN", &runs, "files that --metrics wrote, or directories with metrics.jsonl", {.required = true});
  command.add("--output", &output, "the HTML file; else RUN/report.html of one directory, or report.html");
  command.add_example("l2l-report out", "draws the run in out/ into out/report.html");
  command.add_example("l2l-report first second --output both.html", "draws two runs into one file");
  return command.run(argc, argv);
}

#include "tools/report/page.h"

#include <cctype>
#include <set>
#include <string>
#include <vector>

#include "tools/report/chart.h"

namespace l2l::tools {
namespace {

constexpr const char* kTitle = "<title>L2L: report</title>";
constexpr const char* kStyle = R"(
:root{color-scheme:light dark;--ink:#1d232a;--paper:#fff;--soft:#5c6773;--rule:#e3e7eb;--c0:#1668c5;--c1:#c2410c;--c2:#15803d;--c3:#9333ea;--c4:#b45309;--c5:#be185d}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ed;--paper:#14181d;--soft:#9aa5b1;--rule:#2b323a;--c0:#6cb2ff;--c1:#fb923c;--c2:#4ade80;--c3:#c99bff;--c4:#fbbf24;--c5:#f472b6}}
body{margin:0 auto;max-width:1720px;padding:1.2rem;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
h1{font-size:1.3rem;margin:0 0 .2rem}h2{font-size:1.05rem;margin:1.6rem 0 .5rem}p.about,figcaption span,td.soft{color:var(--soft)}
main{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,420px),1fr));gap:1.1rem}
figure{margin:0;border:1px solid var(--rule);border-radius:8px;padding:.7rem .8rem}figcaption{font-weight:600}figcaption span{font-weight:400}
svg{width:100%;height:auto;display:block}svg text{fill:var(--soft);font-size:12px}.grid{stroke:var(--rule)}polyline{fill:none;stroke-width:1.7;stroke-linejoin:round}
.legend{margin:.2rem 0 0;font-size:.85rem;overflow-wrap:anywhere}.legend span::before{content:"";display:inline-block;width:.9em;height:.25em;margin-right:.4em;vertical-align:middle;background:currentColor}
.c0{stroke:var(--c0)}.c1{stroke:var(--c1)}.c2{stroke:var(--c2)}.c3{stroke:var(--c3)}.c4{stroke:var(--c4)}.c5{stroke:var(--c5)}
circle.c0{fill:var(--c0)}circle.c1{fill:var(--c1)}circle.c2{fill:var(--c2)}circle.c3{fill:var(--c3)}circle.c4{fill:var(--c4)}circle.c5{fill:var(--c5)}
span.c0{color:var(--c0)}span.c1{color:var(--c1)}span.c2{color:var(--c2)}span.c3{color:var(--c3)}span.c4{color:var(--c4)}span.c5{color:var(--c5)}
.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}td,th{padding:.2rem .8rem .2rem 0;text-align:right;border-bottom:1px solid var(--rule)}
td:first-child,th:first-child,td.text{text-align:left}th{overflow-wrap:anywhere}pre{overflow-x:auto;font-size:.85rem;border:1px solid var(--rule);border-radius:8px;padding:.7rem}
@media(max-width:600px){svg text{font-size:19px}}
@media print{figure{break-inside:avoid}}
)";

struct Part {
  const char *field, *label;
};
struct Chart {
  const char *title, *unit;
  std::vector<Part> parts;
  double factor = 1;
};

const std::vector<Chart>& charts() {
  static const std::vector<Chart> kCharts = {
      {"Loss", "nats per predicted token", {{"loss", "training"}, {"validation_loss", "validation"}}},
      {"Learning rate", "", {{"learning_rate", ""}}},
      {"Gradient norm", "before clipping", {{"gradient_norm", ""}}},
      {"Throughput", "tokens per second", {{"tokens_per_second", ""}}},
      {"Time of a step", "ms", {{"step_ms", "measured"}, {"predicted_ms", "predicted"}}},
      {"Compute waited",
       "ms per step",
       {{"weight_stall_ms", "for weights"},
        {"stash_stall_ms", "for the stash"},
        {"update_stall_ms", "weight stream for updates"}}},
      {"Over the link",
       "MiB per step",
       {{"h2d_bytes", "to the device"}, {"d2h_bytes", "to the host"}},
       1.0 / (1 << 20)},
      {"Memory", "MiB", {{"host_bytes", "host, peak"}, {"device_peak_bytes", "device, peak"}}, 1.0 / (1 << 20)},
      {"Held from malloc()",
       "KiB after each save",
       {{"allocator.engine", "engine"},
        {"allocator.planning", "planning"},
        {"allocator.text", "text"},
        {"allocator.staging", "staging"}},
       1.0 / (1 << 10)},
      {"Parameter server", "GB/s of memory traffic", {{"eps_gb_per_second", ""}}},
      {"Loss scale", "", {{"loss_scale", ""}}},
  };
  return kCharts;
}

std::vector<std::pair<double, double>> points_of(const RunLog& run, const std::string& field, double factor) {
  const auto series = run.series.find(field);
  if (series == run.series.end()) return {};
  std::vector<std::pair<double, double>> points = series->second.points();
  for (auto& point : points) point.second *= factor;
  return points;
}

std::string draw(const Chart& chart_of, std::span<const RunLog> runs) {
  std::vector<ChartLine> lines;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (std::size_t k = 0; k < chart_of.parts.size(); ++k) {
      ChartLine line{chart_of.parts[k].label, static_cast<int>(runs.size() > 1 ? i + k * runs.size() : k),
                     points_of(runs[i], chart_of.parts[k].field, chart_of.factor)};
      if (runs.size() > 1) line.label = runs[i].name + (line.label.empty() ? "" : ", " + line.label);
      if (!line.points.empty()) lines.push_back(std::move(line));
    }
  }
  return chart(chart_of.title, chart_of.unit, lines);
}

std::string task_metrics(std::span<const RunLog> runs) {
  std::set<std::string> names;
  for (const RunLog& run : runs) {
    for (const auto& [name, series] : run.series) {
      if (name.starts_with("metrics.")) names.insert(name);
    }
  }
  std::string html;
  for (const std::string& name : names) {
    const std::string title = name.substr(std::string("metrics.").size());
    html += draw({title.c_str(), "on the validation data", {{name.c_str(), ""}}}, runs);
  }
  return html;
}

std::string last_numbers(std::span<const RunLog> runs) {
  std::set<std::string> names;
  for (const RunLog& run : runs) {
    for (const auto& [name, series] : run.series) names.insert(name);
  }
  std::string html = "<h2>Last numbers</h2><div class=\"wide\"><table><tr><th></th>";
  for (const RunLog& run : runs) html += "<th>" + escaped(run.name) + "</th>";
  html += "</tr>\n";
  for (const std::string& name : names) {
    html += "<tr><td>" + escaped(name) + "</td>";
    for (const RunLog& run : runs) {
      const auto series = run.series.find(name);
      html += series == run.series.end() ? "<td></td>" : "<td>" + short_number(series->second.last(), 6) + "</td>";
    }
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

std::string mebibytes(double bytes) { return short_number(bytes / (1 << 20), 6); }

// The contract's lines, their sum, and what was measured (of `field`, the peak so far).
std::string memory_rows(const RunLog& run, const std::string& title, const std::vector<RunFacts::Memory>& lines,
                        const std::string& field) {
  if (lines.empty()) return {};
  std::string rows;
  double sum = 0;
  for (const RunFacts::Memory& line : lines) {
    sum += line.bytes;
    rows +=
        "<tr><td class=\"soft\">" + escaped(line.what) + "</td><td>" + mebibytes(line.bytes) + "</td><td></td></tr>\n";
  }
  const auto series = run.series.find(field);
  const std::string measured = series == run.series.end() ? "" : mebibytes(series->second.last());
  return "<tr><td>" + title + "</td><td>" + mebibytes(sum) + "</td><td>" + measured + "</td></tr>\n" + rows;
}

std::string memory_of(const RunLog& run) {
  const std::string rows = memory_rows(run, "device", run.facts.device, "device_peak_bytes") +
                           memory_rows(run, "host", run.facts.host, "host_bytes");
  if (rows.empty()) return {};
  return "<h2>Memory of " + escaped(run.name) +
         "</h2><div class=\"wide\"><table><tr><th>MiB</th><th>contract</th><th>measured</th></tr>\n" + rows +
         "</table></div>\n";
}

// Machine, warnings, memory and config.
std::string facts_of(const RunLog& run) {
  std::string html;
  if (!run.facts.machine.empty()) {
    html += "<h2>Machine of " + escaped(run.name) + "</h2><div class=\"wide\"><table>\n";
    for (const auto& [label, text] : run.facts.machine) {
      html += "<tr><td class=\"soft\">" + escaped(label) + "</td><td class=\"text\">" + escaped(text) + "</td></tr>\n";
    }
    html += "</table></div>\n";
  }
  if (!run.facts.warnings.empty()) {
    html += "<h2>Warnings of " + escaped(run.name) + "</h2><ul>\n";
    for (const std::string& warning : run.facts.warnings) html += "<li>" + escaped(warning) + "</li>\n";
    html += "</ul>\n";
  }
  html += memory_of(run);
  if (!run.config.empty()) {
    html += "<h2>Config of " + escaped(run.name) + "</h2><pre>" + escaped(run.config) + "</pre>\n";
  }
  return html;
}

}  // namespace

bool is_report(std::string_view beginning) { return beginning.find(kTitle) != std::string_view::npos; }

std::string report_page(std::span<const RunLog> runs) {
  std::string about, facts, drawn;
  for (const RunLog& run : runs) {
    about += (about.empty() ? "" : "; ") + escaped(run.name) + ": " + std::to_string(run.lines) + " lines" +
             (run.unread == 0 ? "" : ", " + std::to_string(run.unread) + " of them not read");
    facts += facts_of(run);
  }
  for (const Chart& each : charts()) {
    drawn += draw(each, runs);
    if (&each == &charts().front()) drawn += task_metrics(runs);
  }
  return std::string("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">") +
         "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">" + kTitle + "<style>" + kStyle +
         "</style></head><body>\n<h1>Training report</h1><p class=\"about\">" + about + "</p>\n<main>\n" + drawn +
         "</main>\n" + last_numbers(runs) + facts + "</body></html>\n";
}

}  // namespace l2l::tools

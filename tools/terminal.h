// Standard error: what is written there while a run goes on, whether a line can be rewritten, and how much of it fits.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace l2l::tools {

// Whether standard error is a terminal that can rewrite a line (TERM is not "dumb").
bool rewrites_lines();
// Columns of standard error now: as the terminal says, else by COLUMNS, else 80.
int terminal_columns();

// The same where standard error is a terminal, else no limit.
int message_columns();
// Columns of standard output where it is a terminal, but at most `most`, which files and pipes get.
int output_columns(int most);

// A part of a line; those of the highest rank are the first to go.
struct LinePart {
  int rank = 0;
  std::string text;
};

// The parts, two spaces between them, as many as fit in `columns`; what is still too long is cut off. One column stays
// free, since some terminals wrap a full line.
std::string fit(std::vector<LinePart> parts, int columns);

// Writes to standard error. The text is lost where nobody has read there for two seconds, as where a terminal is held
// or the reader of a pipe hangs: a run does not wait for that. From any thread.
void write_message(std::string_view text);
// Writes a line in place of the one that was rewritten before, without an end.
void rewrite_line(const std::string& line);

}  // namespace l2l::tools

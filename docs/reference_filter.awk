# Shows Doxygen the comments of a public header as documentation: those before a declaration, those behind one, with the
# lines that go on below it, and the one that begins the file.
{
  column = match($0, /\/\//)
  code = column > 1 && substr($0, 1, column - 1) ~ /[^ ]/
  if (FNR == 1 && column == 1) {
    print "/// @file"
    sub(/\/\//, "///")
  } else if (column > 0 && code && substr($0, 1, column - 1) !~ /"[^"]*$/) {
    $0 = substr($0, 1, column - 1) "///<" substr($0, column + 2)
    behind = column
  } else if (column > 0 && !code) {
    $0 = substr($0, 1, column - 1) (column == behind ? "///<" : "///") substr($0, column + 2)
    if (column != behind) behind = 0
  } else {
    behind = 0
  }
  print
}

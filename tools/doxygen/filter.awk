# filter.awk - a public header as Doxygen reads it (tools/doxygen/Doxyfile): plain comments become its own. The first one describes the file, one behind code
# what stands before it, any other what follows it.
/for programs that are compiled with -Wextra/ { next }
FNR == 1 && /^\/\* / { sub(/^\/\* /, "/** @file\n * ") }
/^ *\/\* ---- / { print; next } # a heading
/^ *\/\*($| )/ { sub(/\/\*/, "/**") }
/[a-zA-Z0-9_);,{\\][ \t]+\/\* / { sub(/\/\*/, "/**<") }
{ print }

# comments.awk - prints FILE:LINE: TEXT of every comment of C files; a comment of several lines is one text. Usage: awk -f comments.awk FILE...
function flush() { if (text != "") print FILENAME ":" start ": " text; text = "" }
FNR == 1 { inside = 0 }
{
    line = $0
    while (line != "") {
        if (!inside) {
            # a literal that has no comment in it is skipped
            if (!match(line, /"([^"\\]|\\.)*"|'([^'\\]|\\.)*'|\/\*|\/\//)) break
            token = substr(line, RSTART, RLENGTH)
            line = substr(line, RSTART + RLENGTH)
            if (token == "//") { start = FNR; text = line; flush(); break }
            if (token != "/*") continue
            inside = 1
            start = FNR
        } else if (line !~ /^ *\*\//) sub(/^ *\* ?/, " ", line)
        end = index(line, "*/")
        text = text (end ? substr(line, 1, end - 1) : line)
        if (!end) break
        inside = 0
        line = substr(line, end + 2)
        flush()
    }
}

# literals.awk - prints FILE:LINE: TEXT of every string literal of C files; neighbouring literals are one text. Usage: awk -f literals.awk FILE...
function flush() { if (text != "") print place ": " text; text = "" }
FNR == 1 { flush(); comment = 0 }
{
    line = $0
    if (comment) { if (!sub(/^.*\*\//, "", line)) next; comment = 0 }
    if (line ~ /^[ \t]*#[ \t]*include/) next
    while (line != "") {
        if (match(line, /"([^"\\]|\\.)*"|\/\*/) == 0) { if (line !~ /^[ \t]*$/) flush(); break }
        before = substr(line, 1, RSTART - 1); token = substr(line, RSTART, RLENGTH); line = substr(line, RSTART + RLENGTH)
        if (before !~ /^[ \t]*$/) flush()
        if (token == "/*") { if (!sub(/^.*\*\//, "", line)) { comment = 1; line = "" } continue }
        if (text == "") place = FILENAME ":" FNR
        text = text substr(token, 2, length(token) - 2)
    }
}
END { flush() }

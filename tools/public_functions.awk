# public_functions.awk - the functions of include/lockstep/*.h, for tests that walk them all.
#   awk -f tools/public_functions.awk include/lockstep/*.h               a name a line
#   awk -v exports=1 -f tools/public_functions.awk ...                   a version script for the linker, which exports nothing else
#   awk -v calls=1 -f tools/public_functions.awk include/lockstep/*.h    C for tests/api/test_arguments.c: for each pointer that a function takes,
#                                                                        a call with NULL there and samples (sample_TYPE) for the others
function declaration(text,    head, name, list, n, p, i, args) {
    gsub(/__attribute__\(\(.*\)\)/, "", text)
    if (!match(text, /ls_[a-z0-9_]+\(/)) return
    name = substr(text, RSTART, RLENGTH - 1)
    head = substr(text, 1, RSTART - 1)
    list = substr(text, RSTART + RLENGTH)
    sub(/\)[ ]*$/, "", list)
    if (exports) names = names " " name ";"
    else if (!calls) print name
    if (!calls) return
    n = split(list, args, ",")
    for (p = 1; p <= n; p++)
        gsub(/ LS_OR_DEFAULTS/, "", args[p])
    for (p = 1; p <= n; p++)
        if (args[p] ~ /[*\[]|ls_build_fn/)
            call(head, name, n, args, p)
}
function call(head, name, n, args, at,    i, text, param, status) {
    for (i = 1; i <= n; i++)
        if (args[i] !~ /\.\.\./)
            text = text (i > 1 ? ", " : "") (i == at ? "nothing" : sample(args[i]))
    param = args[at]
    sub(/\[[0-9]*\][ ]*$/, "", param)
    sub(/^.*[ *]/, "", param)
    status = head ~ /^ls_status /
    printf "static ls_status call_%d(void) { %s(%s)(%s);%s }\n", count, status ? "return " : "(void)", name, text, status ? "" : " return LS_OK;"
    rows = rows sprintf("    { \"%s\", \"%s\", call_%d, %d },\n", name, param, count++, status)
}
function sample(arg,    stars, array) {
    stars = gsub(/\*/, " ", arg)
    array = gsub(/\[[0-9]*\]/, "", arg)
    gsub(/(^|[ ])const /, " ", arg); gsub(/ const /, " ", arg); gsub(/ struct /, " ", arg)
    sub(/^ +/, "", arg)
    sub(/ .*/, "", arg)
    while (stars--) arg = arg "_p"
    return "sample_" arg (array ? "_array" : "")
}
{ all = all $0 "\n" }
END {
    while ((i = index(all, "/*")) > 0) all = substr(all, 1, i - 1) " " substr(all, i + index(substr(all, i), "*/") + 1)
    n = split(all, lines, "\n")
    for (i = 1; i <= n; i++) {
        if (!macro && lines[i] !~ /^[ \t]*#/) text = text lines[i] " "
        macro = (macro || lines[i] ~ /^[ \t]*#/) && lines[i] ~ /\\$/
    }
    n = split(text, parts, ";")
    for (i = 1; i <= n; i++)
        if ((at = index(parts[i], "LS_API ")) > 0) declaration(substr(parts[i], at + 7))
    if (exports) print "{ global:" names " local: *; };"
    if (calls) printf "static const struct call { const char *function, *argument; ls_status (*run)(void); bool status; } CALLS[] = {\n%s};\n", rows
}

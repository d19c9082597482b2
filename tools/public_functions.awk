# public_functions.awk - the functions of include/lockstep/*.h, for tests that walk them all.
#   awk -f tools/public_functions.awk include/lockstep/*.h               a name a line
#   awk -v exports=LOCKSTEP_0.1 -f tools/public_functions.awk ...         a version script for the linker, which exports them under this version
#                                                                        and nothing else
#   awk -v arguments=1 -f tools/public_functions.awk include/lockstep/*.h    C for tests/api/test_arguments.c: for each pointer that a function takes,
#                                                                        a call with NULL there and samples (sample_TYPE) for the others
#   awk -v choices=1 ...                                                 C for tests/api/test_choices.c: for each enum and each integer that a function
#                                                                        takes, itself or in a struct of options, a call in which it has any number
function declaration(text,    head, name, list, n, p, i, args) {
    gsub(/__attribute__\(\(.*\)\)/, "", text)
    if (!match(text, /ls_[a-z0-9_]+\(/)) return
    name = substr(text, RSTART, RLENGTH - 1)
    head = substr(text, 1, RSTART - 1)
    list = substr(text, RSTART + RLENGTH)
    sub(/\)[ ]*$/, "", list)
    if (exports) names = names " " name ";"
    else if (!arguments && !choices) print name
    if (!arguments && !choices) return
    n = split(list, args, ",")
    for (p = 1; p <= n; p++)
        gsub(/ LS_OR_DEFAULTS/, "", args[p])
    for (p = 1; choices && p <= n; p++)
        choice(head, name, n, args, p)
    if (choices) return
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
# Calls in which argument `at`, an enum, or each enum inside it, a struct or a const pointer to one, is *v.
function choice(head, name, n, args, at,    type, stars) {
    type = args[at]
    stars = gsub(/\*/, " ", type)
    if (type ~ /\[/ || stars > 1 || (stars && args[at] !~ /const /)) return
    gsub(/(^|[ ])(const|struct) /, " ", type)
    sub(/^ +/, "", type)
    param = type
    sub(/ .*/, "", type)
    sub(/^.*[ ]/, "", param)
    if (type in last && !stars) chosen(head, name, n, args, at, type, type, "", param)
    else if (type in members) inside(head, name, n, args, at, type, type, "", param)
}
function inside(head, name, n, args, at, whole, type, path, param,    k, list, word, dot) {
    k = split(members[type], list, " ")
    dot = path == "" ? "" : "."
    while (k > 0) {
        split(list[k--], word, ":")
        if (word[1] in last) chosen(head, name, n, args, at, whole, word[1], path dot word[2], param)
        else if (word[1] in members) inside(head, name, n, args, at, whole, word[1], path dot word[2], param)
    }
}
function chosen(head, name, n, args, at, whole, type, path, param,    i, text, status, made) {
    for (i = 1; i <= n; i++)
        if (args[i] !~ /\.\.\./)
            text = text (i > 1 ? ", " : "") (i != at ? sample(args[i]) : args[i] ~ /\*/ ? "&copy" : "copy")
    status = head ~ /^ls_status /
    made = args[at] ~ /\*/ ? "*(" sample(args[at]) ")" : sample(args[at])
    printf "static ls_status choice_%d(const int *v) { %s copy = %s; if (v) copy%s = (%s)*v; %s(%s)(%s);%s }\n",
        count, whole, made, (path == "" ? "" : "." path), type, status ? "return " : "(void)", name, text, status ? "" : " return LS_OK;"
    rows = rows sprintf("    { \"%s\", \"%s%s\", \"%s\", choice_%d, %d, %d },\n", name, param, (path == "" ? "" : "." path), type, count++, status,
        args[1] ~ /ls_graph \*/)
}
# `last`: the enums; `members`: of each struct those that are enums or structs, TYPE:NAME
function types(text,    at, body, name, n, m, i, k, list, words, type) {
    last["int"] = last["int64_t"] = 1
    while (match(text, /typedef (enum|struct) ls_[a-z0-9_]+ \{/)) {
        name = substr(text, RSTART, RLENGTH)
        enumerated = name ~ /^typedef enum/
        sub(/^typedef [a-z]+ /, "", name)
        sub(/ \{$/, "", name)
        text = substr(text, RSTART + RLENGTH)
        at = index(text, "} " name ";")
        body = substr(text, 1, at - 1)
        text = substr(text, at)
        if (enumerated) { last[name] = 1; continue }
        if (body ~ /struct \{/) continue # a recipe: only the reader of recipes fills it
        n = split(body, list, ";")
        for (i = 1; i <= n; i++) {
            sub(/^ +/, "", list[i]); sub(/^const /, "", list[i]); sub(/^struct /, "", list[i])
            if (list[i] !~ /^(ls_[a-z0-9_]+|int|int64_t) [a-z]/ || list[i] ~ /[*({]/) continue
            type = list[i]
            sub(/ .*/, "", type)
            m = split(substr(list[i], length(type) + 2), words, ",")
            for (k = 1; k <= m; k++) {
                gsub(/ /, "", words[k])
                sub(/\[.*/, "[0]", words[k])
                members[name] = members[name] " " type ":" words[k]
            }
        }
    }
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
    types(text)
    n = split(text, parts, ";")
    for (i = 1; i <= n; i++)
        if ((at = index(parts[i], "LS_API ")) > 0) declaration(substr(parts[i], at + 7))
    if (exports) print exports " { global:" names " local: *; };"
    if (arguments) printf "static const struct call { const char *function, *argument; ls_status (*run)(void); bool status; } CALLS[] = {\n%s};\n", rows
    if (choices) printf "static const struct choice { const char *function, *argument, *type; ls_status (*run)(const int *v); bool status, graph; } CHOICES[] = {\n%s};\n", rows
}

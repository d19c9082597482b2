# abi.awk - from the preprocessed headers of include/lockstep, a program in C that prints the library's binary interface (tools/abi runs it):
# every type with its size, every member with its place, every value of an enum, every function with its arguments.
#   cc -E all.h | awk -v include=FOLDER -f tools/abi.awk
# Line markers (# 12 "FOLDER/graph.h") say which text is ours.
function trim(text) { gsub(/[ \t]+/, " ", text); sub(/^ /, "", text); sub(/ $/, "", text); return text }
# Splits text at `mark` outside brackets into parts[1..n].
function cut(text, mark, parts,    i, c, deep, n, from) {
    n = deep = 0
    from = 1
    for (i = 1; i <= length(text); i++) {
        c = substr(text, i, 1)
        if (c ~ /[({[]/) deep++
        else if (c ~ /[])}]/) deep--
        else if (c == mark && !deep) { parts[++n] = substr(text, from, i - from); from = i + 1 }
    }
    parts[++n] = substr(text, from)
    return n
}
function say(format, values) { printf "    printf(\"%s\\n\"%s);\n", format, values == "" ? "" : ", " values }
# The members of `body`, which is the inside of type `whole`, at `path` in it.
function members(whole, path, body,    parts, names, n, m, i, k, at, inner, type, name, stars, array) {
    n = cut(body, ";", parts)
    for (i = 1; i <= n; i++) {
        parts[i] = trim(parts[i])
        if (parts[i] == "") continue
        if (parts[i] ~ /^struct \{/) {
            for (at = length(parts[i]); substr(parts[i], at, 1) != "}"; at--) { }
            inner = substr(parts[i], 9, at - 9)
            name = trim(substr(parts[i], at + 1))
            array = name
            sub(/\[.*/, "[0]", array)
            sub(/\[.*/, "", name)
            member(whole, path name, path name, "struct" (name == array ? "" : "[]"))
            members(whole, path array ".", inner)
        } else if (parts[i] ~ /\(\*/) { # a pointer to a function
            name = parts[i]
            sub(/^[^(]*\(\*/, "", name)
            sub(/\).*/, "", name)
            type = parts[i]
            sub("\\(\\*" name "\\)", "(*)", type)
            member(whole, path name, path name, type)
        } else {
            m = cut(parts[i], ",", names)
            type = names[1]
            sub(/[ *]*[a-z0-9_]+(\[[^]]*\])*$/, "", type)
            names[1] = substr(names[1], length(type) + 1)
            for (k = 1; k <= m; k++) {
                name = stars = array = trim(names[k])
                gsub(/^[* ]+/, "", name)
                sub(/\[.*/, "", name)
                gsub(/[^*]/, "", stars)
                if (!sub(/^[^[]*/, "", array)) array = ""
                member(whole, path name, path name, type (stars == "" ? "" : " ") stars array)
            }
        }
    }
}
function member(whole, shown, path, type) {
    gsub(/\[0\]/, "[]", shown)
    say("member " whole "." shown " %zu %zu " type, "offsetof(" whole ", " path "), sizeof(((" whole " *)0)->" path ")")
}
function statement(text,    at, name, body, n, i, parts, words) {
    text = trim(text)
    if (text ~ /^typedef enum/) {
        name = text
        sub(/^.*\} /, "", name)
        body = substr(text, index(text, "{") + 1)
        sub(/\}[^}]*$/, "", body)
        n = cut(body, ",", parts)
        for (i = 1; i <= n; i++) {
            split(trim(parts[i]), words, " ")
            if (words[1] != "" && words[1] !~ /_COUNT$/) say("value " name " " words[1] " %lld", "(long long)" words[1])
        }
        return
    }
    if (text ~ /^(typedef )?struct ls_[a-z0-9_]+ \{/) {
        name = text
        sub(/^(typedef )?struct /, "", name)
        sub(/ .*/, "", name)
        body = substr(text, index(text, "{") + 1)
        sub(/\}[^}]*$/, "", body)
        say("struct " name " %zu %zu", "sizeof(" name "), _Alignof(" name ")")
        members(name, "", body)
    } else if (text ~ /^typedef/) {
        say(text, "")
    } else if (text ~ /__attribute__ *\(\(visibility\("default"\)\)\)/) {
        gsub(/__attribute__ *\(\([a-z]+\([^()]*\)\)\)/, "", text)
        text = trim(text)
        gsub(/ ?, ?/, ", ", text)
        gsub(/ +\)/, ")", text)
        say("function " text, "")
    }
}
/^# [0-9]+ "/ { name = $0; sub(/^# [0-9]+ "/, "", name); ours = index(name, include "/lockstep/") == 1; next }
ours { text = text " " $0 }
END {
    print "#include <lockstep/lockstep.h>\n#include <lockstep/module.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void)\n{"
    from = 1
    for (i = 1; i <= length(text); i++) {
        c = substr(text, i, 1)
        if (c == "{") deep++
        if (c == "}" && !--deep && substr(text, from, i - from) ~ /\) *\{/ && substr(text, from, i - from) !~ /typedef|^ *struct/) { # a function's body
            from = i + 1
            continue
        }
        if (c == ";" && !deep) { statement(substr(text, from, i - from)); from = i + 1 }
    }
    print "    return 0;\n}"
}

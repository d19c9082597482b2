# fish completion for lockstep(1): verbs, options, their choices and bundled recipes, all from `lockstep --verbs` (see tools/lockstep.bash).
complete -c lockstep -e
complete -c lockstep -n __fish_use_subcommand -f
lockstep --verbs 2>/dev/null | while read -l -d \t kind verb name letter value help
    set -l here -c lockstep -n "__fish_seen_subcommand_from $verb"
    switch $kind
        case verb # its summary is the fourth column
            complete -c lockstep -n __fish_use_subcommand -f -a $verb -d "$letter"
        case recipe
            complete -c lockstep -n "not __fish_use_subcommand" -a $verb -d recipe
        case option
            set -l words $here -l (string sub -s 3 -- $name) -d "$help"
            test -n "$letter"; and set -a words -s $letter
            switch $value
                case "" "[*"
                case FILE PATH DIR
                    set -a words -r -F
                case "*|*"
                    set -a words -x -a (string split "|" -- $value | string match -v -r "[A-Z]" | string join " ")
                case "*"
                    set -a words -x
            end
            complete $words
    end
end

# fish completion for lockstep(1): verbs, options, their words and bundled recipes, all from `lockstep --verbs` (see tools/lockstep.bash).
complete -c lockstep -e
complete -c lockstep -n __fish_use_subcommand -f
lockstep --verbs 2>/dev/null | while read -l -d \t kind verb name letter value help takes choices repeat
    set -l here -c lockstep -n "__fish_seen_subcommand_from $verb"
    switch $kind
        case verb # its summary is the fourth column
            complete -c lockstep -n __fish_use_subcommand -f -a $verb -d "$letter"
        case recipe
            complete -c lockstep -n "not __fish_use_subcommand" -a $verb -d recipe
        case option
            set -l words $here -l (string sub -s 3 -- $name) -d "$help"
            test -n "$letter"; and set -a words -s $letter
            switch $takes
                case file folder
                    set -a words -r -F
                case text
                    set -a words -x
            end
            test -n "$choices"; and set -a words -a $choices
            complete $words
    end
end

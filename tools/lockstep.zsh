#compdef lockstep
# zsh completion for lockstep(1): verbs, options, their choices and bundled recipes, all from `lockstep --verbs` (see tools/lockstep.bash).
local -a rows part verbs specs recipes choices
local row spec help action
rows=("${(@f)$(${words[1]} --verbs 2>/dev/null)}")
for row in $rows; do
    part=("${(@ps:\t:)row}")
    case $part[1] in
    verb) verbs+=("${part[2]}:${part[4]}") ;;
    recipe) recipes+=($part[2]) ;;
    option)
        [[ $part[2] == ${words[2]} ]] || continue
        help=${${${part[6]//\[/(}//\]/)}//:/\\:}
        case $part[5] in
        "" | \[*) action= ;; # takes no value, or may go without one
        FILE | PATH) action=":file:_files" ;;
        DIR) action=":folder:_files -/" ;;
        *\|*) # words in capitals stand for something of the user's
            choices=("${(@s:|:)part[5]}")
            choices=(${choices:#*[A-Z]*})
            action=":value:($choices)" ;;
        *) action=":${part[5]//:/\\:}: " ;;
        esac
        if [[ $part[5] == \[* ]]; then spec="${part[3]}=-[$help]::value:"; else spec="${part[3]}[$help]$action"; fi
        [[ $part[3] != --(set|compare|verbose) ]] || spec="*$spec"
        specs+=("$spec")
        ;;
    esac
done
if (( CURRENT == 2 )); then
    _describe -t verbs verb verbs
else
    shift words
    (( CURRENT-- ))
    _arguments $specs "*:recipe or file:{ compadd -a recipes; _files }"
fi

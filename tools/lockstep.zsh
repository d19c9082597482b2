#compdef lockstep
# zsh completion for lockstep(1): verbs, options, their words and bundled recipes, all from `lockstep --verbs` (see tools/lockstep.bash).
local -a rows part verbs specs recipes
local row spec help value action
rows=("${(@f)$(${words[1]} --verbs 2>/dev/null)}")
for row in $rows; do
    part=("${(@ps:\t:)row}")
    case $part[1] in
    verb) verbs+=("${part[2]}:${part[4]}") ;;
    recipe) recipes+=($part[2]) ;;
    option)
        [[ $part[2] == ${words[2]} ]] || continue
        help=${${${part[6]//\[/(}//\]/)}//:/\\:}
        value=${part[5]//:/\\:}
        case $part[7]:$part[8] in
        flag:) action= ;;
        maybe:*) action="::value:" ;;
        file:) action=":file:_files" ;;
        folder:) action=":folder:_files -/" ;;
        folder:*) action=":value:{ compadd $part[8]; _files -/ }" ;;
        text:) action=":$value: " ;;
        text:*) action=":value:($part[8])" ;;
        esac
        spec="[$help]$action"
        [[ $part[7] != maybe ]] || spec="=-$spec"
        spec="${part[3]}$spec"
        [[ $part[9] != repeat ]] || spec="*$spec"
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

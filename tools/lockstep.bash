# bash completion for lockstep(1): verbs, options, their words and bundled recipes, all from `lockstep --verbs` (tab-separated rows:
# "verb NAME ...", "option VERB --NAME LETTER VALUE HELP KIND WORDS REPEAT", "recipe NAME"; KIND is flag, text, file, folder, or maybe: the value may be left out).
_lockstep() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} verb=${COMP_WORDS[1]} table choices
    COMPREPLY=()
    table=$("${COMP_WORDS[0]}" --verbs 2> /dev/null) || return
    if [ "$COMP_CWORD" = 1 ]; then
        choices="--help --version $(awk -F'\t' '$1 == "verb" {print $2}' <<< "$table")"
        mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$word")
        return
    fi
    # the value of the option before
    choices=$(awk -F'\t' -v verb="$verb" -v name="$before" '$1 == "option" && $2 == verb && $3 == name {print $7 " " $8}' <<< "$table")
    case $choices in
        "" | flag* | maybe*) ;;
        *)
            mapfile -t COMPREPLY < <(compgen -W "${choices#* }" -- "$word"
                case $choices in file*) compgen -f -- "$word" ;; folder*) compgen -d -- "$word" ;; esac)
            case $choices in file* | folder*) compopt -o filenames 2> /dev/null ;; esac
            return ;;
    esac
    case $word in
        -*)
            choices=$(awk -F'\t' -v verb="$verb" '$1 == "option" && $2 == verb {print $3}' <<< "$table")
            mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$word")
            ;;
        *)
            compopt -o filenames 2> /dev/null
            choices=$(awk -F'\t' '$1 == "recipe" {print $2}' <<< "$table")
            mapfile -t COMPREPLY < <(compgen -f -- "$word"; compgen -W "$choices" -- "$word")
            ;;
    esac
}
complete -F _lockstep lockstep

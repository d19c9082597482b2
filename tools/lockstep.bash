# bash completion for lockstep(1): verbs, options, their choices and bundled recipes, all from `lockstep --verbs` (tab-separated rows:
# "verb NAME ...", "option VERB --NAME LETTER VALUE HELP", "recipe NAME").
_lockstep() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} verb=${COMP_WORDS[1]} table choices
    COMPREPLY=()
    table=$("${COMP_WORDS[0]}" --verbs 2> /dev/null) || return
    if [ "$COMP_CWORD" = 1 ]; then
        choices="--help --version $(awk -F'\t' '$1 == "verb" {print $2}' <<< "$table")"
        mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$word")
        return
    fi
    # The value of the option before: "a|b" are choices, of which one in capitals is a folder; FILE and PATH are files, anything else is the user's.
    choices=$(awk -F'\t' -v verb="$verb" -v name="$before" '$1 == "option" && $2 == verb && $3 == name {print $5}' <<< "$table")
    case $choices in
        *\|*)
            mapfile -t COMPREPLY < <(compgen -W "$(tr '|' '\n' <<< "$choices" | grep -v '[A-Z]')" -- "$word"; [[ $choices != *[A-Z]* ]] || compgen -d -- "$word")
            return ;;
        FILE | PATH) compopt -o filenames 2> /dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$word"); return ;;
        "" | \[*) ;; # takes no value, or may go without one
        *) return ;;
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

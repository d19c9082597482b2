# bash completion for lockstep(1)
_lockstep() {
    local verbs="train eval predict plan explain export inspect recipe runs doctor"
    local common="--set --workers -q -v --log --no-progress --help"
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} verb=${COMP_WORDS[1]} options
    COMPREPLY=()
    if [ "$COMP_CWORD" = 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W "$verbs --help --version" -- "$word")
        return
    fi
    case $before in
        --log) mapfile -t COMPREPLY < <(compgen -W "text json" -- "$word"); return ;;
        --resume) mapfile -t COMPREPLY < <(compgen -W "auto never" -- "$word"); return ;;
        --split) mapfile -t COMPREPLY < <(compgen -W "train eval" -- "$word"); return ;;
        --set | --workers | --param | --rank) return ;;
    esac
    case $word in
        -*)
            case $verb in
                train) options="$common --resume --allow-change --dry-run --profile" ;;
                eval) options="$common --json" ;;
                predict) options="$common --json --out --split --resize" ;;
                plan) options="$common --json --isa --threads" ;;
                explain) options="$common --json --rank --param" ;;
                export) options="$common --to --dtype" ;;
                inspect) options="--verify --json --help" ;;
                recipe) options="$common" ;;
                *) options="--help" ;;
            esac
            mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
            ;;
        *)
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -f -- "$word")
            case $verb in
                train | eval | plan | explain | inspect | recipe)
                    # the bundled recipes, which `lockstep recipe` lists: one name at the start of each line
                    mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -W "$(lockstep recipe 2> /dev/null | awk '{print $1}')" -- "$word")
                    ;;
            esac
            ;;
    esac
}
complete -F _lockstep lockstep

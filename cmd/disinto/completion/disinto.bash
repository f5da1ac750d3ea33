# bash completion for disinto: the program itself knows what can follow.
_disinto() {
  local line=''
  COMPREPLY=()
  while IFS= read -r line; do
    case $line in
      :files | :dirs)
        # readline's own completion of names, which quotes them; bash 3 of macOS has no compopt
        compopt -o default 2>/dev/null
        ;;
      *) COMPREPLY+=("${line%%$'\t'*}") ;;
    esac
  done < <("$1" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _disinto disinto

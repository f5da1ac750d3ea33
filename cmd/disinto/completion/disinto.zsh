#compdef disinto
# zsh completion for disinto: the program itself knows what can follow.
_disinto() {
  local line
  local -a found
  while IFS= read -r line; do
    case $line in
      :files | :dirs)
        compset -P '--*='
        if [[ $line == :dirs ]]; then _files -/; else _files; fi
        return
        ;;
      *$'\t'*) found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}") ;;
      *) found+=("${line//:/\\:}") ;;
    esac
  done < <("${(Q)words[1]}" complete -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)
  compset -P '--*='
  _describe -V value found
}
if [[ ${funcstack[1]} == _disinto ]]; then
  _disinto "$@"
else
  compdef _disinto disinto
fi

# fish completion for disinto: the program itself knows what can follow.
function __disinto_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l prefix (string match -r -- '^--[a-z-]+=' $current)
    or set prefix ''
    for line in (command $words[1] complete -- $words[2..-1] "$current" 2>/dev/null)
        switch $line
            case :files
                __fish_complete_path (string replace -r -- '^--[a-z-]+=' '' "$current")
            case :dirs
                __fish_complete_directories (string replace -r -- '^--[a-z-]+=' '' "$current")
            case '*'
                echo $prefix$line
        end
    end
end
complete -c disinto -f -a '(__disinto_complete)'

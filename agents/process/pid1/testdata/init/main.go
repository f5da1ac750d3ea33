// Init is the smallest program with package pid1 in it.
package main

import _ "codeberg.org/johba/disinto/agents/process/pid1"

func main() {}

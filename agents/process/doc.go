// Package process starts, waits for, signals and reaps every process that disinto has. Nothing else in the program
// may.
package process

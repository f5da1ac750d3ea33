// Package browser has only tests, which drive a demo's control room with a real browser: make web-test. They are behind
// the build tag browser, because the driver's description of the browser's protocol takes longer to compile than all of
// this program.
package browser

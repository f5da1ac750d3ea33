// Package browser contains only tests, which drive a demo's control room with a real browser: make web-test. They
// need the build tag browser, because chromedp's description of the browser's protocol takes longer to compile than
// this whole program.
package browser

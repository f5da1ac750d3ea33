//go:build entry && linux

#include "textflag.h"

// The program's first instructions: see entry.go. The kernel has put argc and argv on the stack; R12 keeps its place.
TEXT ·entry(SB), NOSPLIT|NOFRAME, $0
	MOVQ	SP, R12
	CMPQ	0(R12), $1
	JLT	start
	LEAQ	runtime·sigtable(SB), R13
	CMPL	(15*24)(R13), $3	// what TERM has in the runtime that we know
	JNE	start
	MOVQ	8(R12), DI		// argv[0], and then its last element
	MOVQ	DI, SI
name:
	MOVB	(SI), AX
	INCQ	SI
	CMPB	AX, $0x2f		// a slash
	CMOVQEQ	SI, DI
	TESTB	AX, AX
	JNE	name
	CMPL	(DI), $0x696e6974	// tini
	JNE	dumbinit
	CMPB	4(DI), $0
	JEQ	all
dumbinit:
	MOVQ	$0x696e692d626d7564, AX	// dumb-ini
	CMPQ	(DI), AX
	JNE	word
	CMPW	8(DI), $0x74		// t
	JEQ	all
word:
	CMPQ	0(R12), $2
	JLT	start
	MOVQ	16(R12), DI		// argv[1]
	CMPL	(DI), $0x63657865	// exec
	JNE	start
	CMPB	4(DI), $0
	JNE	start

all:
	MOVB	$2, ·keeps(SB)
	MOVQ	$-1, ·kept(SB)
	MOVQ	$65, CX
clear:
	MOVL	$0, (R13)
	ADDQ	$24, R13
	DECQ	CX
	JNE	clear

block:
	MOVQ	$14, AX			// rt_sigprocmask(SIG_BLOCK, kept, mask, 8)
	MOVQ	$0, DI
	LEAQ	·kept(SB), SI
	LEAQ	·mask(SB), DX
	MOVQ	$8, R10
	SYSCALL
	MOVQ	$302, AX		// prlimit64(0, RLIMIT_NOFILE, NULL, files)
	MOVQ	$0, DI
	MOVQ	$7, SI
	MOVQ	$0, DX
	LEAQ	·files(SB), R10
	SYSCALL

start:
	MOVQ	$0, DX
	JMP	_rt0_amd64_linux(SB)

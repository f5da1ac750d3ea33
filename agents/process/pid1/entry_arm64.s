//go:build entry && linux

#include "textflag.h"

// The program's first instructions: see entry.go. The kernel has put argc and argv on the stack.
TEXT ·entry(SB), NOSPLIT|NOFRAME, $0
	MOVD	0(RSP), R9		// argc
	CMP	$1, R9
	BLT	start
	MOVD	$runtime·sigtable(SB), R10
	MOVWU	(15*24)(R10), R11
	CMP	$3, R11			// what TERM has in the runtime that we know
	BNE	start
	MOVD	8(RSP), R12		// argv[0], and then its last element
	MOVD	R12, R13
name:
	MOVBU	(R13), R14
	ADD	$1, R13
	CMP	$0x2f, R14		// a slash
	CSEL	EQ, R13, R12, R12
	CBNZ	R14, name
	MOVWU	(R12), R14
	MOVD	$0x696e6974, R15	// tini
	CMP	R15, R14
	BNE	dumbinit
	MOVBU	4(R12), R14
	CBZ	R14, all
dumbinit:
	MOVD	(R12), R14
	MOVD	$0x696e692d626d7564, R15	// dumb-ini
	CMP	R15, R14
	BNE	word
	MOVHU	8(R12), R14
	CMP	$0x74, R14		// t
	BEQ	all
word:
	CMP	$2, R9
	BLT	start
	MOVD	16(RSP), R12		// argv[1]
	MOVWU	(R12), R14
	MOVD	$0x63657865, R15	// exec
	CMP	R15, R14
	BNE	start
	MOVBU	4(R12), R14
	CBNZ	R14, start

all:
	MOVD	$2, R14
	MOVB	R14, ·keeps(SB)
	MOVD	$-1, R14
	MOVD	R14, ·kept(SB)
	MOVD	$65, R15
clear:
	MOVW	ZR, (R10)
	ADD	$24, R10
	SUB	$1, R15
	CBNZ	R15, clear

block:
	MOVD	$135, R8		// rt_sigprocmask(SIG_BLOCK, kept, mask, 8)
	MOVD	$0, R0
	MOVD	$·kept(SB), R1
	MOVD	$·mask(SB), R2
	MOVD	$8, R3
	SVC
	MOVD	$261, R8		// prlimit64(0, RLIMIT_NOFILE, NULL, files)
	MOVD	$0, R0
	MOVD	$7, R1
	MOVD	$0, R2
	MOVD	$·files(SB), R3
	SVC

start:
	B	_rt0_arm64_linux(SB)

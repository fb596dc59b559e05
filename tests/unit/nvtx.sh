#!/bin/sh
# NVTX in a process with two libraries that contain it, with and without another
# tool: what the ledger's ranges see, what the tool sees, what the job gets back.
set -u
status=0
tool=$PWD/tests/fakes/nvtx_tool.so

# run EXPECTED STEP…: what is printed, standard error included, with the words of
# $with in the environment.
host=nvtx_host with=CKPT_BLOCKS=nvtx
run() {
	expected=$1
	shift
	printed=$(env -u NVTX_INJECTION64_PATH $with \
		LD_PRELOAD="$PWD/libckptagent.so" "./tests/fakes/$host" "$@" 2>&1)
	[ "$printed" = "$expected" ] && return 0
	printf '%s %s: %s\nexpected:\n%s\nprinted:\n%s\n\n' \
		"$with" "$host" "$*" "$expected" "$printed"
	status=1
}

# Every kind of range, of both libraries; what is returned is what NVTX returns
# without a tool.
run 'init 1
init 1
push -2
push -2
push -2
push -2
open 4: [text] [ex] [w€] [narrow]
pop -2
open 3: [ex] [w€] [narrow]
pop -2
pop -2
open 1: [narrow]
live 1' a:init b:init a:push=narrow 'b:wide=w~' a:event=ex b:registered=text open \
	b:domain-pop open a:pop b:pop open live

run 'init 1
push -2
start 1
open 2: [phase] [outer]
pop -2
open 1: [phase]
open 0:
start 1
open 0:' a:init a:push=outer a:start=phase open a:pop open a:end open \
	a:start=again a:end-elsewhere open

run 'init 1
push -2
number 1' a:init a:push=x number

# The job's environment stays what it is.
run 'init 1' a:init variable
with="CKPT_BLOCKS=nvtx NVTX_INJECTION64_PATH=$tool"
run "tool init
init 1
NVTX_INJECTION64_PATH=$tool" a:init variable

# Another tool sees the same calls, and its answers go back.
run 'tool init
init 1
tool init
init 1
tool push one
push 70
tool push two
push 70
open 2: [two] [one]
tool pop
pop 71
tool mark here
tool start phase
start 1
open 2: [phase] [one]
tool end 4711
open 1: [one]
tool domain domain
tool register domain text
tool push in domain
push 72
open 2: [text] [one]
pop -2
open 1: [one]' a:init b:init a:push=one b:push=two open b:pop a:mark=here \
	a:start=phase open b:end open a:registered=text open a:domain-pop open
run 'tool extension payload
extension 5' extension

# One that the job itself names later, by the variable.
with=CKPT_BLOCKS=nvtx
run "tool init
init 1
tool push one
push 70
open 1: [one]" "tool=$tool" a:init a:push=one open
run 'extension 1' extension

# One that is behind the first library alone, or came after it.
with="CKPT_BLOCKS=nvtx NVTX_INJECTION64_PATH=$tool FAKE_TOOL=once"
run 'tool init
init 1
tool init
ckptagent: NVTX of one library: its tool is not that of another library; its ranges are not seen
init 1
tool push one
push 70
push -2
open 1: [one]' a:init b:init a:push=one b:push=two open
with=CKPT_BLOCKS=nvtx
run "init 1
tool init
ckptagent: NVTX of one library: its tool is not that of another library; its ranges are not seen
init 1
push -2
tool push two
push 70
open 1: [one]" a:init "tool=$tool" b:init a:push=one b:push=two open

# One that starts us in turn: each call still reaches both once.
with="CKPT_BLOCKS=nvtx NVTX_INJECTION64_PATH=$tool FAKE_TOOL=calls-us"
run 'tool init
init 1
tool push one
push 70
open 1: [one]' a:init a:push=one open

# One that fails, is not there, is none, or is us.
with="CKPT_BLOCKS=nvtx NVTX_INJECTION64_PATH=$tool FAKE_TOOL=fails"
run 'tool init
ckptagent: NVTX of one library: the tool in NVTX_INJECTION64_PATH did not start
init 1
push -2
open 1: [one]' a:init a:push=one open
for path in /nonexistent.so "$PWD/tests/fakes/nvtx_client_a.so"; do
	with="CKPT_BLOCKS=nvtx NVTX_INJECTION64_PATH=$path"
	run 'ckptagent: NVTX of one library: the tool in NVTX_INJECTION64_PATH cannot be loaded
init 1
push -2
open 1: [one]' a:init a:push=one open
done
with="CKPT_BLOCKS=nvtx NVTX_INJECTION64_PATH=$PWD/libckptagent.so"
run 'init 1
push -2
open 1: [one]' a:init a:push=one open
run 'extension 1' extension

# A library with another NVTX is left alone.
with=CKPT_BLOCKS=nvtx
run 'ckptagent: NVTX of one library: its version is not known; its ranges are not seen
init 0
push -2
open 0:' a:init=1 a:push=one open
run 'init 1
push -2
open 1: [one]' a:init=2 a:push=one open
run 'ckptagent: NVTX of one library: its version is not known; its ranges are not seen
init 0' a:init=4

# More ranges than are seen are no harm.
run 'init 1
push -2
open 1024: [many] [many] [many] [many]' a:init a:push=first many=2000 open

# Nobody is there for other jobs: without the setting, disabled, not Python.
for with in CKPT_BLOCKS=auto 'CKPT_BLOCKS=nvtx CKPT_DISABLE=1'; do
	run 'init 0
push -2
open 0:
live 0' a:init a:push=one open live
done
with=CKPT_BLOCKS=nvtx host=nvtx_host_plain
run 'init 0
push -2
open 0:' a:init a:push=one open
for with in CKPT_BLOCKS=auto CKPT_BLOCKS=nvtx; do
	with="$with NVTX_INJECTION64_PATH=$tool"
	run 'tool init
init 1
tool push one
push 70
open 0:' a:init a:push=one open
done
exit $status

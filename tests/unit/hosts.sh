#!/bin/sh
# The preloaded library in processes that a real Python does not show: without
# Python, free-threaded, not started, at its end, without torch's reporter.
set -u
status=0

# run EXPECTED HOST LIBRARY STEP…: what is printed, standard error included,
# with the variable in $setting set.
setting=
run() {
	expected=$1 host=$2 library=$3
	shift 3
	printed=$(env $setting LD_PRELOAD="$PWD/libckptagent.so" "./tests/fakes/$host" \
		"./tests/fakes/$library" "$@" 2>&1)
	[ "$printed" = "$expected" ] && return 0
	printf '%s %s %s\nexpected:\n%s\nprinted:\n%s\n\n' \
		"$host" "$library" "$*" "$expected" "$printed"
	status=1
}

new='new 0x5e1f 0x1000 64'
delete='delete 0x5e1f 0x1000'

# Every call is forwarded and counted.
run "$new
scheduled
live 64 1 1
$delete
live 0 1 2" host_python libc10.so alloc live free live

# Without Python the calls are forwarded and nothing else happens.
run "$new
$delete
live 0 0 0" host_plain libc10.so alloc free live

run "$new
ckptagent: free-threaded Python is not supported; standing down
live 0 0 0
$new" host_python libc10.so free-threaded alloc live alloc

# A start is tried again until the interpreter is up and its queue has room.
run "$new
$new
scheduled" host_python libc10.so uninit alloc init alloc
run "$new
full
$new
full
$new
scheduled
$new" host_python libc10.so full alloc alloc room alloc alloc
run "$new
$new" host_python libc10.so finalize alloc alloc

# The main thread has its time to come.
run "$new
scheduled
$new" host_python libc10.so alloc alloc wait

# When it does not, one thread takes its place, once, and none at the
# interpreter's end.
run "$new
scheduled
$new
fallback
$new" host_python libc10.so alloc wait alloc wait alloc wait
run "$new
scheduled
$new" host_python libc10.so alloc finalize wait alloc wait

# A library that calls the reporter without having it: one line.
run "ckptagent: torch's CPU memory reporter was not found; standing down
live 0 0 0" host_python libnoc10.so alloc free alloc live

# One that finds the reporter in us: the same line, and no endless loop.
run "ckptagent: torch's CPU memory reporter was not found; standing down
live 0 0 0" host_python loop/libc10.so alloc free alloc live

# Disabled, or with a setting that cannot be read.
setting=CKPT_DISABLE=1
run "$new
$delete
live 0 0 0" host_python libc10.so alloc free live
setting=CKPT_PROOF=never
run "$new
ckptagent: CKPT_PROOF: \"never\" cannot be read; accepted: always, sample, \
first; the job runs without the agent
live 0 0 0
$new" host_python libc10.so alloc live alloc
run "$new
live 0 0 0" host_plain libc10.so alloc live
exit $status

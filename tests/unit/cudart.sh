#!/bin/sh
# The hooks of the CUDA runtime alone, on runtimes that print what reaches them:
# counted to the byte and handed on to the runtime that the caller was linked
# to. In `books`, a line a device: by torch's caching allocator, by others.
set -u
status=0
fakes=$PWD/tests/fakes

# run EXPECTED STEP…: what is printed, standard error included, with the
# libraries in $preload after the agent and those in $path found first.
preload=
path=$fakes
run() {
	expected=$1
	shift
	printed=$(LD_PRELOAD="$PWD/libckptagent.so $preload" \
		LD_LIBRARY_PATH="$path" ./tests/fakes/cuda_host "$@" 2>&1)
	[ "$printed" = "$expected" ] && return 0
	printf '%s %s\nexpected:\n%s\nprinted:\n%s\n\n' \
		"$preload" "$*" "$expected" "$printed"
	status=1
}

nothing='device 1: 0 0
device 2: 0 0'

# Every call is handed on, what succeeded is counted, and freed memory is not.
run "12 malloc 64
12 async 100
12 pool 1000
device 1: 0 1164
device 2: 0 0
12 free async
12 free async
12 free
$nothing" local:libuser12.so malloc:64 async:100 pool:1000 books free_async \
	free_async free books
run "12 malloc refused
error 2
$nothing
12 free nothing
$nothing" local:libuser12.so malloc:0 books free_null books

# Rows lie further apart than they are wide.
run "12 pitch 1200
device 1: 0 2048
device 2: 0 0
12 free
$nothing" local:libuser12.so pitch:600 books free books
run "12 pitch refused
error 2
$nothing" local:libuser12.so pitch:0 books

# What libc10_cuda takes is cached, but for its calls that are tensors.
run "12 malloc 64
device 1: 64 0
device 2: 0 0" local:libc10_cuda.so malloc:64 books

# Two runtimes: each caller's own, whichever came first, on its own device.
run "12 malloc 64
13 malloc 32
device 1: 0 64
device 2: 0 32
13 free
12 malloc 16
device 1: 0 80
device 2: 0 0" local:libuser12.so malloc:64 local:libuser13.so malloc:32 books \
	free local:libuser12.so malloc:16 books
run "13 malloc 64
12 malloc 32
13 async 1
13 pool 2
13 free async
device 1: 0 32
device 2: 0 65" local:libuser13.so malloc:64 local:libuser12.so malloc:32 \
	local:libuser13.so async:1 pool:2 free_async books

# The same where all stand in the global scope, one before the other.
preload='libuser12.so libuser13.so'
run "13 malloc 32
12 malloc 64
device 1: 0 64
device 2: 0 32" local:libuser13.so malloc:32 local:libuser12.so malloc:64 books
preload='libuser13.so libuser12.so'
run "13 malloc 32
12 malloc 64
device 1: 0 64
device 2: 0 32" local:libuser13.so malloc:32 local:libuser12.so malloc:64 books

# Another library that stands before the runtime keeps its place.
preload=libcuda_spy.so\ libuser12.so
run "spy 12 malloc 64
device 1: 0 64
device 2: 0 0" local:libuser12.so malloc:64 books
preload=

# The name that a wheel gives its runtime.
run "12 malloc 64
device 1: 0 64
device 2: 0 0
12 free
$nothing" local:libuser_wheel.so malloc:64 books free books

run "13 malloc 32
12 malloc 64
device 1: 0 64
device 2: 0 32" local:libuser13.so malloc:32 local:libuser_wheel.so malloc:64 books

# A library opened with RTLD_DEEPBIND calls its runtime behind our back. What
# it frees, or takes where we thought something else was, does no harm.
run "12 malloc 64
$nothing
12 free
$nothing" deep:libuser12.so malloc:64 books free books
run "12 malloc 64
12 free
device 1: 0 64
device 2: 0 0" local:libc10_cuda.so local:libuser12.so malloc:64 \
	deep:libuser_wheel.so old_free books

# Without a runtime, where the caller finds nothing but us: an error of
# CUDA's and one line, no endless loop.
run "ckptagent: no CUDA runtime here has cudaMalloc for its caller; such calls fail
error 35" local:$fakes/loop/libuser.so malloc:64

# A runtime without a function: one line, an error of CUDA's for that call.
path=$fakes/old:$fakes
run "12 malloc 64
ckptagent: no CUDA runtime here has cudaMallocFromPoolAsync for its caller; \
such calls fail
error 35
error 35
12 async 32
device 1: 0 96
device 2: 0 0" local:$fakes/old/libcudart.so.12 local:libuser12.so malloc:64 pool:8 \
	pool:8 async:32 books
path=$fakes/bare:$fakes
run "12 malloc 64
ckptagent: cudaGetDevice was not found in the CUDA runtime; what is taken from \
the device beside tensors is not counted
12 malloc 32
$nothing
12 free" local:$fakes/bare/libcudart.so.12 local:libuser12.so malloc:64 malloc:32 books \
	free
path=$fakes

# torch's library with the runtime inside: never seen, and said so.
run "static malloc 64
$nothing
shared 0" local:$fakes/static/libc10_cuda.so malloc:64 books shared
run "shared 1" local:libc10_cuda.so shared
run "shared 1" shared
exit $status

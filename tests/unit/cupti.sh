#!/bin/sh
# Times from CUPTI's records, on a CUPTI that writes made-up ones: what is
# counted, when the agent keeps out, and what it leaves for a profiler.
set -u
status=0
fakes=$PWD/tests/fakes
torch=load:$fakes/libtorch_cpu.so

# run EXPECTED STEP…: what is printed, standard error included, with $cupti in
# FAKE_CUPTI and the libraries in $path found first.
cupti=
path=$fakes
run() {
	expected=$1
	shift
	printed=$(LD_PRELOAD="$PWD/libckptagent.so" LD_LIBRARY_PATH="$path" \
		FAKE_CUPTI="$cupti" ./tests/fakes/cupti_host "$@" 2>&1)
	[ "$printed" = "$expected" ] && return 0
	printf '%s %s\nexpected:\n%s\nprinted:\n%s\n\n' \
		"$cupti" "$*" "$expected" "$printed"
	status=1
}

on='register
enable 39
enable 5
enable 4
enable 1
enable 2
enable 10'
off='disable 10
disable 2
disable 1
disable 4
disable 5
disable 39
flush 1'

# Kernels and copies of a region, and nothing of what was outside.
run "$on
$off
ns 107 1000" $torch begin launch:50 enter launch:100 copy:7 leave launch:50 enter \
	launch:1000 leave end
# What is inside a region is the outer one's too.
run "$on
$off
ns 111 110 100" $torch begin enter launch:1 enter launch:10 enter launch:100 \
	leave leave leave end
# A region that was never left (an exception) ends with the one around it.
run "$on
$off
ns 11 10 0 0" $torch begin enter launch:1 enter launch:10 leave_all launch:500 \
	enter leave enter leave end
# Records in the other order, a second recording, CUPTI of CUDA 13.
cupti=mixed
run "$on
$off
ns 100 1000" $torch begin enter launch:100 leave enter launch:1000 leave end
cupti=
run "$on
$off
ns 100
$on
$off
ns 0 30" $torch begin enter launch:100 leave end launch:8 begin enter launch:30 leave \
	end
run "$on
$off
ns 100" load:$fakes/cupti13/libtorch_cpu.so begin enter launch:100 leave end

# Keeping out, with the reason and nothing switched on.
run "begin -2: this torch was not linked to a libcupti
no region
end -22: nothing was begun" begin enter leave end
run "begin -2: this torch was not linked to a libcupti" \
	load:$fakes/libcupti.so.13 load:$fakes/static/libtorch_cpu.so begin
path=$fakes/bare:$fakes
lacks='begin -2: its libcupti lacks cuptiActivityPopExternalCorrelationId'
run "$lacks
$lacks" load:$fakes/bare/libcupti.so.12 $torch begin begin
path=$fakes
cupti=taken
run "begin -16: a profiler has CUPTI (error 39)" $torch begin
cupti=version=17
run "begin -95: CUPTI of version 17 is not known here" $torch begin
cupti=version=29
run "begin -95: CUPTI of version 29 is not known here" $torch begin
cupti=version=140000
run "begin -95: CUPTI of version 140000 is not known here" $torch begin
cupti=refuse=4
run "register
enable 39
enable 5
disable 5
disable 39
flush 1
begin -5: cuptiActivityEnable: error 10
no region" $torch begin enter

# Records that are missing: no times at all.
cupti=
run "$on
$off
end -5: CUPTI's records were lost" $torch begin enter many:100000 leave end
run "$on
$off
end -5: CUPTI had no records" $torch begin enter leave end
cupti=untimed
run "$on
$off
end -5: CUPTI's records were lost" $torch begin enter launch:100 leave end
# Those that come late are nobody's, also while the next recording goes on.
cupti=late
run "$on
$off
end -5: CUPTI had no records
$on
$off
end -5: CUPTI had no records" $torch begin enter launch:100 leave end deliver begin \
	enter leave end
run "$on
$off
end -5: CUPTI had no records
$on
$off
end -5: CUPTI had no records" $torch begin enter launch:100 leave end begin deliver \
	enter leave end
cupti=

# A profiler of the job's: afterwards, and while we record.
run "$on
$off
ns 100
register
enable 10
disable 10
flush 1
profiled 2" $torch begin enter launch:100 leave end profile launch:1 launch:2 profiled
run "$on
$off
register
enable 10
end -16: a profiler of the job began
disable 10
flush 1
profiled 3" $torch begin enter launch:1 leave enter profile launch:2 leave launch:3 \
	end launch:4 profiled
# Also where CUPTI has kept a buffer of ours, for what are now its records.
cupti=keeps
run "$on
$off
ns 100
register
enable 10
disable 10
flush 1
profiled 2
register
enable 10
disable 10
flush 1
profiled 1
$on
$off
ns 0 30" $torch begin enter launch:100 leave end profile launch:1 launch:2 profiled \
	profile launch:3 profiled begin enter launch:30 leave end
cupti=
# What is on CUPTI's stack by then is taken off, and nothing else.
run "$on
stack 2
$off
register
enable 10
no region
stack 2
stack 0" $torch begin enter enter stack profile enter leave stack leave leave stack
# The next profile iteration has CUPTI again.
run "$on
$off
register
enable 10
disable 10
flush 1
profiled 1
end -16: a profiler of the job began
$on
$off
ns 100" $torch begin profile launch:2 profiled end begin enter launch:100 leave end

# A child has no device and no recording.
run "$on
no region
end -22: nothing was begun" $torch begin fork enter end
exit $status

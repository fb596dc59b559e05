#!/bin/sh
# libckptagent.so exports the hooks and the shim's functions, each of them and
# nothing else, and needs libc alone.
set -eu
library=./libckptagent.so

fail() { echo "$*" >&2; exit 1; }

expected=$({
	sed -n 's/^HOOK([a-z0-9_]*, "[^"]*", \([A-Za-z0-9_]*\),.*/\1/p' \
		"$srcdir/hooks/hooks.def"
	sed -n 's/^[a-z].*[ *]\(ckptagent_[a-z_]*\)(.*/\1/p' \
		"$srcdir/agent/shim_abi.h"
} | LC_ALL=C sort)
exported=$(nm -D --defined-only "$library" | sed 's/.* //' | LC_ALL=C sort)
[ -n "$expected" ] || fail "no names found"
[ "$expected" = "$exported" ] ||
	fail "expected:
$expected
exported:
$exported"

for needed in $(readelf -d "$library" |
	sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
	case $needed in
	libc.so.* | libdl.so.* | libpthread.so.* | ld-linux*) ;;
	*) fail "needs $needed" ;;
	esac
done

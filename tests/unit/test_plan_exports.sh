#!/bin/sh
# libckptplan.so exports what plan.map lists, which is what plan.h declares.
set -eu

fail() { echo "$*" >&2; exit 1; }

exported=$(nm -D --defined-only ./libckptplan.so | sed 's/.* //' |
	LC_ALL=C sort)
listed=$(sed -n 's/^\t\(ckptplan_[a-z_]*\);/\1/p' \
	"$srcdir/planner/plan.map" | LC_ALL=C sort)
declared=$(sed -n 's/^[a-z].*[ *]\(ckptplan_[a-z_]*\)(.*/\1/p' \
	"$srcdir/planner/plan.h" | LC_ALL=C sort)
[ -n "$listed" ] || fail "no names found"
[ "$listed" = "$exported" ] || fail "exported:
$exported"
[ "$listed" = "$declared" ] || fail "declared:
$declared"

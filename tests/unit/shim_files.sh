#!/bin/sh
# python.am lists exactly the Python files that are there. Where it does not,
# prints the lines that belong there.
set -eu
cd "$srcdir/python-sitecustomize"
listed=$(grep -o 'python-sitecustomize/[A-Za-z0-9_/]*\.py' python.am |
	LC_ALL=C sort)
present=$(find . -name '*.py' | sed 's,^\.,python-sitecustomize,' |
	LC_ALL=C sort)
[ "$listed" = "$present" ] && exit 0
echo "python-sitecustomize/python.am should list:" >&2
echo "$present" | sed 's/$/ \\/' >&2
exit 1

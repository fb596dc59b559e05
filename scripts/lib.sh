# Sourced by the scripts beside it: packages, Python packages, build.
#
#   need_packages          Debian and Ubuntu packages for building and testing
#   need_python LEVEL      sets PYTHON; LEVEL is run or test
#   need_venv LEVEL        the same in $VENV, also for new and old (other torches)
#   need_phantom_venv LEVEL  the same in $VENV-LEVEL: phantom or phantom-12
#   need_build DIR ARGS…   configures (with ARGS) and builds in DIR
#
# CKPT_VENV names the virtual environment (.venv of the checkout by default),
# CKPT_PIP_ARGS holds further options for pip, PYTHON an interpreter to use as
# it stands, CKPT_JOBS the number of jobs of make.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
BUILD=${CKPT_BUILD:-$ROOT/build}
VENV=${CKPT_VENV:-$ROOT/.venv}
JOBS=${CKPT_JOBS:-$(getconf _NPROCESSORS_ONLN)}
PYTHON=${PYTHON:-}

# The agent is only to be in the jobs that these scripts start.
unset LD_PRELOAD CKPT_BUDGET CKPT_BLOCKS CKPT_PLANNER CKPT_PLAN CKPT_OUT \
	CKPT_ON_INFEASIBLE CKPT_PROOF CKPT_ON_MISMATCH CKPT_SPILL CKPT_TIMING \
	CKPT_CACHE CKPT_TENSORBOARD CKPT_LOG CKPT_DISABLE PYTHONPATH

say() { printf '%s\n' "$*" >&2; }
heading() { printf '\n== %s\n' "$*" >&2; }
die() { say "$(basename "$0"): $*"; exit 1; }

# Run a command quietly; where it fails, show the end of what it said.
quiet() {
	local what=$1 log=$2 status=0
	shift 2
	printf '%s ... ' "$what" >&2
	"$@" >"$log" 2>&1 </dev/null || status=$?
	if [ "$status" -eq 0 ]; then
		say "done"
		return 0
	fi
	say "failed (exit status $status)"
	tail -n 40 "$log" >&2
	say "all of it: $log"
	return "$status"
}

# ---- packages of the system ------------------------------------------------

# One line a need: a package, and a test that says whether it is there.
needed_packages() {
	cat <<-'END'
	autoconf	command -v autoconf
	automake	command -v automake
	make	command -v make
	gcc	command -v gcc
	libc6-dev	echo '#include <dlfcn.h>' | gcc -E -
	libjansson-dev	echo '#include <jansson.h>' | gcc -E -
	libcmocka-dev	echo '#include <cmocka.h>' | gcc -E -
	valgrind	command -v valgrind
	END
	[ -n "$PYTHON" ] || cat <<-'END'
	python3	command -v python3
	python3-venv	python3 -c 'import venv, ensurepip'
	END
}

missing_packages() {
	local package test
	while IFS=$'\t' read -r package test; do
		bash -c "$test" >/dev/null 2>&1 || printf '%s ' "$package"
	done < <(needed_packages)
}

install_packages() {
	export DEBIAN_FRONTEND=noninteractive
	apt-get update && apt-get install -y --no-install-recommends "$@"
}

need_packages() {
	local missing
	missing=$(missing_packages)
	[ -n "$missing" ] || return 0
	if ! command -v apt-get >/dev/null; then
		die "these are missing (Debian's names): $missing"
	fi
	if [ "$(id -u)" -ne 0 ]; then
		say "Some packages are missing. Run this, then try again:"
		say "  sudo apt-get install $missing"
		exit 1
	fi
	# shellcheck disable=SC2086
	quiet "installing $missing" "$(mktemp -t ckpt-apt.XXXXXX)" \
		install_packages $missing || exit 1
	missing=$(missing_packages)
	[ -z "$missing" ] || die "still missing after the install: $missing"
}

# ---- Python ----------------------------------------------------------------

requirements() { # LEVEL
	case $1 in
	run | test | machinery) printf '%s\n' "$ROOT/scripts/requirements.txt" ;;&
	machinery) printf '%s\n' "$ROOT/scripts/requirements-test.txt" ;;&
	test | new | old | machinery | phantom*)
		printf '%s\n' "$ROOT/scripts/requirements-$1.txt" ;;
	esac
}

# The version of torch that pip would take, e.g. 2.13.0+cpu; empty if unknown.
offered_torch() {
	local pin
	pin=$(grep '^torch==' "$ROOT/scripts/requirements.txt")
	# shellcheck disable=SC2086
	"$VENV/bin/python" -m pip install --dry-run --no-deps --quiet \
		--ignore-installed --report - ${CKPT_PIP_ARGS:-} "$pin" 2>/dev/null |
		"$VENV/bin/python" -c 'import json, sys
found = json.load(sys.stdin)["install"][0]
build = "cuda" if any(word in line for word in ("cuda", "nvidia", "triton")
    for line in found["metadata"].get("requires_dist", [])
    if "extra ==" not in line) else "cpu"
print(build)' 2>/dev/null
}

warn_of_cuda() {
	[ "$(offered_torch)" = cuda ] || return 0
	say "pip offers a build of torch with CUDA: several GB, which nothing here uses."
	say "It works all the same. To take the CPU build instead, stop here and start"
	say "again with the index that PyTorch's installation page names for CPU:"
	say "  CKPT_PIP_ARGS='--index-url URL' $0"
	say "or give an interpreter that has torch: $0 --python PATH"
}

fill_venv() { # LEVEL
	local files=() file
	while read -r file; do files+=(-r "$file"); done < <(requirements "$1")
	# shellcheck disable=SC2086
	"$VENV/bin/python" -m pip install --disable-pip-version-check \
		${CKPT_PIP_ARGS:-} "${files[@]}"
}

# What stands in the environment: the pins that were last installed in it.
venv_has() { # LEVEL
	local stamp=$VENV/ckpt-requirements
	[ -x "$VENV/bin/python" ] && [ -f "$stamp.$1" ] &&
		requirements "$1" | xargs cat | cmp -s - "$stamp.$1"
}

need_venv() { # LEVEL
	PYTHON=$VENV/bin/python
	if venv_has "$1" || { [ "$1" = run ] && venv_has test; }; then
		return 0
	fi
	[ -x "$PYTHON" ] || quiet "making a virtual environment in $VENV" \
		"$(mktemp -t ckpt-venv.XXXXXX)" python3 -m venv "$VENV" || exit 1
	[[ $1 = phantom* ]] || "$PYTHON" -c 'import torch' 2>/dev/null || warn_of_cuda
	quiet "installing Python packages (torch first of all)" \
		"$VENV/pip.log" fill_venv "$1" || exit 1
	requirements "$1" | xargs cat >"$VENV/ckpt-requirements.$1"
}

# A torch with CUDA, and nothing of NVIDIA's: the pins are complete, and nothing
# that they require is installed with them.
need_phantom_venv() { # LEVEL
	VENV=$VENV-$1
	CKPT_PIP_ARGS="${CKPT_PIP_ARGS:-} --no-deps" need_venv "$1"
}

need_python() { # LEVEL
	local module modules="torch numpy"
	if [ -z "$PYTHON" ]; then
		need_venv "$1"
		return 0
	fi
	PYTHON=$(command -v "$PYTHON") || die "no such interpreter"
	[ "$1" = run ] || modules="$modules pytest transformers ruff mypy"
	for module in $modules; do
		"$PYTHON" -c "import importlib.util, sys
sys.exit(importlib.util.find_spec('$module') is None)" ||
			die "$PYTHON has no $module"
	done
}

# ---- build -----------------------------------------------------------------

need_configure() {
	local configure=$ROOT/configure
	if [ -e "$configure" ] && [ -z "$(find "$ROOT" -maxdepth 2 \
		\( -name '*.am' -o -name configure.ac \) -newer "$configure")" ]; then
		return 0
	fi
	quiet "autoreconf" "$(mktemp -t ckpt-autoreconf.XXXXXX)" \
		autoreconf -fi "$ROOT" || exit 1
	touch "$configure"
}

# make alone would configure again when configure is newer: but with the old
# arguments, which are right only if they are the ones asked for.
need_build() { # DIR ARGS…
	local dir=$1 asked
	shift
	need_configure
	mkdir -p "$dir"
	asked="$ROOT/configure $*"
	if [ ! -f "$dir/Makefile" ] || [ "$(cat "$dir/asked" 2>/dev/null)" != "$asked" ]; then
		(cd "$dir" && quiet "configure in $dir" "$dir/configure.log" \
			"$ROOT/configure" "$@") || exit 1
		printf '%s\n' "$asked" >"$dir/asked"
	fi
	quiet "make in $dir" "$dir/make.log" \
		make -C "$dir" -j "$JOBS" || exit 1
}

# ---- the options that every script has -------------------------------------

# Takes --python PATH out of the arguments; the rest is left in REST.
take_python() {
	REST=()
	while [ $# -gt 0 ]; do
		case $1 in
		--python) [ $# -gt 1 ] || die "--python needs a path"
			PYTHON=$2; shift ;;
		--python=*) PYTHON=${1#--python=} ;;
		*) REST+=("$1") ;;
		esac
		shift
	done
}

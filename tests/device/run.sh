#!/bin/bash
# Everything that only an NVIDIA GPU can show, on a fresh machine, without a network:
#
#   tests/device/run.sh [--wheels DIR] [--no-tests] [--no-benchmark] [--out DIR] [-- PYTEST_ARGUMENT...]
#
# DIR holds wheels of what the package needs, and of the package itself or of its build requirements (meson-python,
# nanobind, ninja, meson). Without --wheels the installed package is tested. The tests: what every back end
# must hold (tests/conformance) and what must be caught (tests/exploits) on CUDA, those of this folder, and projects rebuilt by
# nvcc (tests/integration/cuda).
# Ends with 1 if a test fails, or is skipped for want of anything but a second GPU, or if a figure misses its bar or cannot be measured.
#
# Needs besides: nvcc, cuobjdump and nvdisasm of a toolkit, make, c++, pytest, PyTorch with Triton, JAX and CuPy for
# CUDA, the headers of OpenSSL, Ray if there are two GPUs, and for the benchmark 32 GiB in /dev/shm and 8 GiB in /var/tmp.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
wheels='' tests=1 benchmark=1 out=$(mktemp -d)
while [ $# -gt 0 ]; do
  case $1 in
    --help) sed -n '/^set/q; 2,$s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --wheels | --out) [ $# -gt 1 ] || { echo "run.sh: $1: which folder?" >&2; exit 2; } ;;&
    --wheels)
      wheels=$(cd "$2" && pwd) || exit 2
      ls "$wheels"/*.whl > /dev/null 2>&1 || { echo "run.sh: there is no wheel in $wheels" >&2; exit 2; }
      shift ;;
    --no-tests) tests=0 ;;
    --no-benchmark) benchmark=0 ;;
    --out) mkdir -p "$2" && out=$(cd "$2" && pwd) || exit 2; shift ;;
    --) shift; break ;;
    *) echo "unknown option $1" >&2; exit 2 ;;
  esac
  shift
done
# Tests that find neither are skipped, which here would prove nothing.
for needed in nvidia-smi nvcc; do
  command -v "$needed" > /dev/null || { echo "run.sh: $needed is not on PATH: nothing can be shown here" >&2; exit 2; }
done
if [ -n "$wheels" ]; then
  site=$(mktemp -d)
  pip="python3 -m pip -q --disable-pip-version-check"
  $pip install --no-index --no-deps --no-cache-dir --target "$site" "$wheels"/*.whl || exit 1
  export PYTHONPATH=$site${PYTHONPATH:+:$PYTHONPATH} PATH=$site/bin:$PATH
  if ! ls "$wheels"/kerncap_stages-*.whl > /dev/null 2>&1; then
    # Without the software GPU: it is nothing to this machine.
    $pip install --no-index --no-deps --no-build-isolation --target "$site" --upgrade "$top" \
      -Csetup-args=-Dsoftgpu=disabled -Csetup-args=-Dcuda=enabled || exit 1
  fi
fi
export PYTHONUNBUFFERED=1
# Images of containers often come without Python's compiled modules, and forbid to write them. Then each start compiles
# all that it imports.
unset PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX=${PYTHONPYCACHEPREFIX:-$(mktemp -d)}
command -v kc-show > /dev/null || { echo "run.sh: kerncap-stages is not installed: --wheels DIR installs it" >&2; exit 2; }
nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem --format=csv
kc-show --about > "$out/about.txt" 2>&1 || { cat "$out/about.txt" >&2; exit 2; }
failed=0
if [ $tests = 1 ]; then
  # A GPU makes contexts one after the other: many more would only wait. Workers take the GPUs by turns.
  workers=$((7 * $(nvidia-smi --list-gpus | wc -l)))
  python3 -c 'import xdist' 2> /dev/null && workers="-n $workers --dist worksteal" || workers=''
  # The compiler on all cores, beside the tests, which mostly wait.
  python3 "$top/tests/helpers/device_programs.py" & building=$!
  # -P: the package that was built, not the folder beside which this may be started.
  # That plugin warns of workers, and warnings are errors here. What takes longest comes first.
  : > "$out/tests.txt"
  tested() {
    python3 -P -m pytest -p no:cacheprovider -p no:benchmark "$top/tests/device" "$top/tests/integration/cuda" \
      "$top/tests/conformance" "$top/tests/exploits" -q -rs --durations=10 "$@" 2>&1 | tee -i -a "$out/tests.txt"
    local code=${PIPESTATUS[0]}
    [ "$code" = 0 ] || [ "$code" = 5 ] || failed=1   # 5: there is no such test, of those that were asked for
  }
  tested $workers -m "(gpu or nvcc) and not alone" "$@"
  tested -m "gpu and alone" "$@"
  grep -q ' passed' "$out/tests.txt" || { echo "run.sh: no test passed" >&2; failed=1; }
  if grep '^SKIPPED' "$out/tests.txt" | grep -v -e 'second GPU' -e "each other's memory"; then
    echo "run.sh: these tests found something missing here, and show nothing" >&2
    failed=1
  fi
  wait $building
fi
if [ $benchmark = 1 ]; then
  python3 "$top/tests/device/benchmark" --markdown --json "$out/benchmark.json" 2>&1 | tee -i "$out/benchmark.txt"
  [ "${PIPESTATUS[0]}" = 0 ] || failed=1
fi
echo "output: $out"
exit "$failed"

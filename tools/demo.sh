#!/usr/bin/env bash
# What the project does, by its own executables, in a fresh folder that is removed at the end. Run by `make demo`.
set -euo pipefail

programs=$(cd "$(dirname "$0")/../tests/programs/demo" && pwd)
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
cd "$work"
export KERNCAP_STORE=$work/store

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
show() {
  printf '$ %s\n' "$*"
  "$@"
}

say 'A folder of binary data: the device libraries of the ROCm at hand. Put it into the store.'
cp -rL "$(dirname "$(find /usr/lib -name ocml.bc -print -quit)")" data
digest=$(show kc-store put data)
show kc-show "$digest"

say 'The same again adds nothing: the same content has the same digest.'
[ "$(show kc-store put data)" = "$digest" ]

say 'Take it out again, verified, and compare.'
show kc-store get "$digest" copy
show diff -r data copy
show kc-store check

say 'Damage one object: flip one bit in the middle of the largest.'
victim=$(find store/objects -type f -printf '%s %p\n' | sort -n | tail -1 | cut -d' ' -f2)
chmod u+w "$victim"
python3 - "$victim" <<'FLIP'
import sys

with open(sys.argv[1], "r+b") as file:
    middle = file.seek(0, 2) // 2
    file.seek(middle)
    byte = file.read(1)[0]
    file.seek(middle)
    file.write(bytes([byte ^ 1]))
FLIP

say 'The check finds it and names it; reading refuses to use it.'
if show kc-store check; then
  say 'the damage was NOT found'
  exit 1
fi
if show kc-store get "$digest" damaged; then
  say 'damaged data was handed out'
  exit 1
fi

say 'A HIP program, compiled for a GPU that this machine does not have ...'
show hipcc --offload-arch=gfx942 -O3 -I"$programs/include" "$programs"/src/main.cpp "$programs"/src/matvec.hip -o matvec

say '... runs on the software GPU, under the real ROCm runtime, and checks its own result.'
show kc-softgpu --target gfx942 --count -- ./matvec

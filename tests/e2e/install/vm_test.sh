#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `barcuda vm`: the commands that it says it would run; what is wrong or missing is said before anything is made; and a VM that does
# not come up, or whose start is interrupted, leaves no process and no file. (tests/vm/debian starts one that does.)
. "$(dirname "$0")/../lib.sh"
export HOME=$scratch/home XDG_CACHE_HOME=
vm() { PATH=${tools:-$PATH} "$build/bin/barcuda" vm "$@"; }
refused() { # refused WHAT ARGUMENTS...
    local what=$1; shift
    vm "$@" > "$scratch/out" 2>&1; local status=$?
    [ $status = 125 ] && grep -q -- "$what" "$scratch/out" || fail "vm $*: status $status, $(cat "$scratch/out")"
}

out=$(vm --dry-run --region-size 1G --put /etc/hostname -- ./my 'two words') || fail "--dry-run: $out"
grep -q '^env TMPDIR=/var/tmp mmdebstrap ' <<< "$out" && grep -q " bookworm $HOME/.cache/barcuda/debian-bookworm/root.img$" <<< "$out" || fail "Debian's root is not made: $out"
grep -q "^[^ ]*/barcuda-bridge --region /dev/shm/barcuda-vm-XXXXXX/region --size 1073741824 " <<< "$out" || fail "the bridge: $out"
options=$("$build/bin/barcuda" vm-config --qemu x --virtio-pmem --memory 2G --size 1G --region /dev/shm/barcuda-vm-XXXXXX/region)
grep -q -- "^qemu-system-x86_64 .* $options .*,snapshot=on .*label=CIDATA" <<< "$out" || fail "QEMU is not started as vm-config has it: $out"
[ "$(tail -n 1 <<< "$out")" = "ssh -F /dev/shm/barcuda-vm-XXXXXX/ssh vm './my '\\''two words'\\''; exit \$?'" ] || fail "ssh: $out"
out=$(vm --dry-run --module --debian trixie) || fail "--module: $out"
grep -q -- "-device ivshmem-doorbell,chardev=barcuda,vectors=1 " <<< "$out" && grep -q -- "barcuda-bridge .*--doorbell " <<< "$out" || fail "--module: $out"
truncate -s 64M "$scratch/disk,1"
out=$(vm --dry-run --write --image "$scratch/disk,1") || fail "--image: $out"
grep -q "file=$scratch/disk,,1,format=raw,snapshot=off" <<< "$out" && ! grep -q -e '-kernel' <<< "$out" || fail "--image --write: $out"
printf 'QFI\373' | dd of="$scratch/disk,1" conv=notrunc status=none
vm --dry-run --image "$scratch/disk,1" | grep -q 'format=qcow2,snapshot=on' || fail "a qcow2 image"
truncate -s 0 "$scratch/disk,1"; truncate -s 64M "$scratch/disk,1"
[ ! -e "$HOME" ] || fail "--dry-run has made $(find "$HOME")"

refused 'trixie' --debian jessie
refused '--image excludes\|--debian excludes' --image "$scratch/disk,1" --debian trixie
refused 'no/disk: No such file' --image "$scratch/no/disk"
refused 'small letters' --user 'a b'
refused 'no/file: No such file' --put "$scratch/no/file"
refused 'a bridge makes it' --region "$scratch/none"
refused 'excludes' --region "$scratch/none" --device soft
mkdir "$scratch/packages" "$scratch/bin"
tools=$scratch/bin refused 'qemu-system-x86_64 is missing: apt install qemu-system-x86' --image "$scratch/disk,1"
ln -s /bin/true "$scratch/bin/qemu-system-x86_64"
tools=$scratch/bin refused 'ssh is missing: apt install openssh-client' --image "$scratch/disk,1"
for tool in ssh ssh-keygen scp; do ln -s /bin/true "$scratch/bin/$tool"; done
tools=$scratch/bin refused 'has no barcuda-common_\*.deb: --packages .*make deb' --packages "$scratch/packages"
touch "$scratch"/packages/barcuda-{common_1_amd64,guest_1_all}.deb
[ -e /usr/sbin/mmdebstrap ] || command -v mmdebstrap > /dev/null ||
    tools=$scratch/bin refused 'mmdebstrap is missing, .*apt install mmdebstrap' --packages "$scratch/packages"

for tool in qemu-system-x86_64 ssh-keygen; do command -v $tool > /dev/null || { echo "no $tool here"; echo passed; exit; }; done
# Nothing can be started from an empty disk.
nothing_left() {
    [ -z "$(pgrep -f "region $folder/region|mem-path=$folder/")" ] && [ ! -e "$folder" ] || fail "$1 left $folder, or $(pgrep -fa "$folder")"
}
empty=(--image "$scratch/disk,1" --packages "$scratch/packages" --device soft --region-size 1G --memory 256M)
begin() { # begin SECONDS
    "$build/bin/barcuda" vm "${empty[@]}" --timeout "$1" -- true > "$scratch/out" 2>&1 & started=$!
    for _ in $(seq 500); do
        folder=$(pgrep -P "$started" -fa -- '--region' | sed -n 's|.*--region \(/dev/shm/barcuda-vm-[^/]*\)/region.*|\1|p')
        [ -n "$folder" ] && pgrep -P "$started" qemu > /dev/null && return; sleep 0.02
    done
    fail "no QEMU: $(cat "$scratch/out")"
}
begin 2
wait $started; status=$?
[ $status = 125 ] && grep -q 'has said nothing for 2 s' "$scratch/out" || fail "a guest that does not come up: status $status, $(cat "$scratch/out")"
nothing_left "a guest that does not come up"
begin 60
kill -TERM $started; wait $started; status=$?
[ $status = 143 ] || fail "SIGTERM: status $status, $(cat "$scratch/out")"
nothing_left "SIGTERM"
cmp -s "$scratch/disk,1" <(head -c 64M /dev/zero) || fail "the image was written to"
echo passed

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Which devices a program sees: what --gpus gives its VM, and of these what its CUDA_VISIBLE_DEVICES names, in that order. The host
# enforces the first with the driver's own means, and gives each client a worker of its devices.
. "$(dirname "$0")/lib.sh"
[ "$device" = soft ] && export BARCUDA_SOFT_DEVICES=3
program=$build/programs/which_devices
unset CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER
$run -- "$program" > "$scratch/all" 2>&1 || fail "$(cat "$scratch/all")"
mapfile -t uuids < <(sed -n 's/^[0-9]* \(GPU-[-0-9a-f]*\) .*/\1/p' "$scratch/all")
case ${#uuids[@]} in
    1) [ "$device" = soft ] && fail "one device: $(cat "$scratch/all")"; echo "skipped: there is one device"; exit 77 ;;
esac
last=$((${#uuids[@]} - 1))

# sees NUMBERS PROGRAM...: the program sees these of all devices, in this order, and uses each.
sees() {
    local wanted= n=0 i numbers=$1; shift
    for i in $numbers; do wanted+="$n ${uuids[$i]}"$'\n'; n=$((n + 1)); done
    "$@" > "$scratch/out" 2> "$scratch/err" || fail "$*: $(cat "$scratch/out" "$scratch/err")"
    [ "$(sed -n 's/^\([0-9]* GPU-[-0-9a-f]*\) .*/\1/p' "$scratch/out")" = "${wanted%$'\n'}" ] && grep -qx PASSED "$scratch/out" ||
        fail "$*: not '$numbers' but: $(cat "$scratch/out")"
}
none() { # none PROGRAM...: there is no device for it
    "$@" > "$scratch/out" 2> "$scratch/err" || fail "$*: $(cat "$scratch/out" "$scratch/err")"
    grep -qx 'no device: cudaErrorNoDevice' "$scratch/out" || fail "$*: $(cat "$scratch/out")"
}

# The variable of `barcuda run` is the program's.
sees "0 $last" env CUDA_VISIBLE_DEVICES=0,$last $run -- "$program"
sees "$last" env CUDA_VISIBLE_DEVICES=$last $run -- "$program"
sees "1 0" $run -- "$program" CUDA_VISIBLE_DEVICES=1,0
none env CUDA_VISIBLE_DEVICES=MIG-1 $run -- "$program"
none env CUDA_VISIBLE_DEVICES= $run -- "$program"
[ -s "$scratch/err" ] && fail "said to who asked for none: $(cat "$scratch/err")"
echo "barcuda run"

serve --no-vm
visible() { local list=$1; shift; "${guest[@]}" CUDA_VISIBLE_DEVICES="$list" "$@"; }
sees "$(seq -s' ' 0 "$last")" client "$program"
for i in 1 2; do sees "$last 0" visible "$last,0" "$program"; done  # the third has a warm worker
sees "$last 0" visible "$last,0" "$program"
sees "1" visible 1 "$program"
sees "1 0" visible "${uuids[1]},${uuids[0]}" "$program"
sees "0" visible "0,-1,1" "$program"
sees "1" visible "1,9" "$program"
sees "0" visible "0,${uuids[1]}" "$program"
sees "1 0" visible 0 "$program" CUDA_VISIBLE_DEVICES=1,0  # as the program sets it, before it asks
for list in "" -1 9 GPU-x MIG-0 0,0 "${uuids[0]},${uuids[0]}"; do none visible "$list" "$program"; done
grep -q "barcuda: no GPU: CUDA_VISIBLE_DEVICES=.*: it names ${uuids[0]} twice" "$scratch/err" || fail "not said: $(cat "$scratch/err")"
visible 9 "$program" 2>&1 | grep -q 'barcuda: no GPU: CUDA_VISIBLE_DEVICES=9: there is no 9; `barcuda doctor`' || fail "9 is not named"
visible -1 "$program" 2>&1 | grep -q barcuda: && fail "said to who asked for none"
[ "$device" = soft ] && sees "$(seq -s' ' 0 "$last")" env CUDA_DEVICE_ORDER=PCI_BUS_ID "${guest[@]}" "$program"
visible "$last,0,9" "$build/bin/barcuda" doctor > "$scratch/out"
for i in "${!uuids[@]}"; do grep -q "GPU $i: .*, ${uuids[$i]}" "$scratch/out" || fail "doctor: $(cat "$scratch/out")"; done
grep -q "CUDA_VISIBLE_DEVICES=$last,0,9: programs see GPU $last, 0, in this order; there is no 9" "$scratch/out" || fail "doctor: $(cat "$scratch/out")"
echo "CUDA_VISIBLE_DEVICES in a guest"

# Two clients of different devices at once, and what they share of the region.
visible "$last" "$build/programs/bursts" > "$scratch/one" 2>&1 &
visible 0 "$build/programs/bursts" > "$scratch/two" 2>&1 || fail "$(cat "$scratch/two")"
wait $! || fail "$(cat "$scratch/one")"
kill "$bridge" && wait "$bridge"

# --gpus: what a VM gets, and no guest gets round.
serve --no-vm --gpus "$last,0"
grep -q "0 .* (${uuids[$last]}), 1 .* (${uuids[0]})" "$scratch/log" || fail "the bridge does not say which"
sees "$last 0" client "$program"
sees "0" visible 1 "$program"
sees "0 $last" visible "${uuids[0]},${uuids[$last]}" "$program"
[ "$last" -gt 1 ] && none visible "${uuids[1]}" "$program"
none visible 2 "$program"
kill "$bridge" && wait "$bridge"
serve --no-vm --gpus "${uuids[1]}"
sees "1" client "$program"
none visible "${uuids[0]}" "$program"
sees "1" $run --gpus 1 -- "$program"
sees "1" $run --gpus "${uuids[0]},${uuids[1]}" -- "$program" CUDA_VISIBLE_DEVICES=1
echo "--gpus"

refused() { # refused WORDS GPUS: by the bridge and by `barcuda run`
    "$build/bin/barcuda-bridge" --region "$scratch/other" --size 128M --device "$device" --gpus "$2" 2> "$scratch/err" &&
        fail "--gpus $2 was served"
    grep -q -- "--gpus $2: $1" "$scratch/err" && grep -q "0  ${uuids[0]}" "$scratch/err" || fail "--gpus $2: $(cat "$scratch/err")"
    $run --gpus "$2" -- true 2> "$scratch/err"; [ $? = 125 ] || fail "barcuda run --gpus $2"
}
refused "there is no GPU 9; these are here:" 0,9
refused "there is no GPU x" x
refused "it names 1 twice" 1,1
refused "there is no GPU GPU-x" GPU-x
"$build/bin/barcuda-bridge" --region "$scratch/other" --device "$device" --gpus MIG-1 2>&1 | grep -q "start the bridge with CUDA_VISIBLE_DEVICES=MIG-1" || fail "MIG"

$run --gpus "" -- true > "$scratch/out" 2>&1 && fail "an empty --gpus is all"
grep -q "it names no GPU" "$scratch/out" || fail "an empty --gpus: $(cat "$scratch/out")"

# What each device has for itself, of many and in any order.
timeout 300 $run -- "$build/programs/device_state" > "$scratch/out" 2>&1 || { cat "$scratch/out"; fail device_state; }
for pair in "0 $last" "$last 0"; do
    timeout 300 $run -- "$build/programs/devices" $pair > "$scratch/out" 2>&1 || { cat "$scratch/out"; fail "devices $pair"; }
done
CUDA_VISIBLE_DEVICES=$last,0 timeout 300 $run -- "$build/programs/devices" > "$scratch/out" 2>&1 || { cat "$scratch/out"; fail "devices as $last,0"; }
[ "$device" = soft ] && { BARCUDA_SOFT_DEVICES=32 $run -- "$build/programs/device_state" | grep -q '^32 devices' || fail "32 devices"; }
echo passed

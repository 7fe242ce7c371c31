#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What the bridge is told wrongly is refused with the reason, and what was made for it is gone; who may connect to its doorbell is who may open
# its region; its workers' memory is not for files, and they go before it does.
. "$(dirname "$0")/lib.sh"
refused() { # refused WHAT ARGUMENTS...
    local what=$1; shift
    timeout 20 "$build/bin/barcuda-bridge" --region "$scratch/none" --device "$device" "$@" > "$scratch/out" 2>&1
    case $? in 0 | 124) fail "$*: it began" ;; esac
    grep -q -- "$what" "$scratch/out" || fail "$*: $(cat "$scratch/out")"
    [ ! -e "$scratch/none" ] || fail "$*: a region was made"
}
refused 'nonsense' --log-level nonsense
BARCUDA_LOG=nonsense refused 'nonsense'
refused 'cannot be negative' --size -5
refused 'cannot be negative' --base -1
refused 'there is no such user' --worker-user "nobody-$$"
refused '256.0.0.1' --metrics 256.0.0.1:1
refused 'there is no such group' --group "nobody-$$"
for mode in 0666 0644 0440 0606 04660 abc -1; do refused 'a mode is 0600, 0640 or 0660' "--mode=$mode"; done
# Whose region and doorbell are, whatever the umask; a region that is there already, too.
umask 077
group=$([ "$(id -u)" = 0 ] && echo 65534 || id -g)
serve --doorbell "$scratch/doorbell" --group "$group"
for what in region doorbell; do [ "$(stat -c '%g %a' "$scratch/$what")" = "$group 660" ] || fail "$what: $(stat -c '%g %a' "$scratch/$what")"; done
kill "$bridge"; wait "$bridge"
serve --doorbell "$scratch/doorbell" --mode 0600
for what in region doorbell; do [ "$(stat -c %a "$scratch/$what")" = 600 ] || fail "$what: $(stat -c %a "$scratch/$what")"; done
kill "$bridge"; wait "$bridge"
rm "$scratch/region"
umask 0
serve --doorbell "$scratch/doorbell"
[ "$(stat -c %a "$scratch/doorbell")" = 660 ] || fail "the doorbell has mode $(stat -c %a "$scratch/doorbell")"
start one "$build/e2e/endless"; one=$!
for worker in $(pgrep -P "$bridge" -f -- --worker); do
    grep -qE '^Max core file size +1 +1 ' "/proc/$worker/limits" || fail "$(grep core "/proc/$worker/limits")"
    [ "$(cat "/proc/$worker/oom_score_adj")" = 500 ] || fail "oom_score_adj is $(cat "/proc/$worker/oom_score_adj")"
done
kill $one; wait $one 2> /dev/null
echo passed

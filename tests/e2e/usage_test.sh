#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Who types a command wrongly is told the nearest right word, in one sentence, with a status that is not a program's; help is there
# unasked; `doctor` says at once what is not served, looks at a host as a host, and can be read by programs.
# Where it may, in a /dev/shm of its own: bridges of other tests stand still, too.
. "$(dirname "$0")/own_mounts.sh"
may_mount "$own_shm" && own_mounts "a /dev/shm" "$own_shm"
. "$(dirname "$0")/lib.sh"
need python3
barcuda=$build/bin/barcuda
wrong() { # wrong STATUS WORDS COMMAND...: on standard error, beside where help is
    local status=$1 words=$2; shift 2
    timeout 20 "$@" > "$scratch/out" 2> "$scratch/err"
    [ $? = "$status" ] && [ ! -s "$scratch/out" ] || fail "$*: not $status: $(cat "$scratch/out" "$scratch/err")"
    grep -qF -- "$words" "$scratch/err" && [ "$(wc -l < "$scratch/err")" = 2 ] && grep -q -- '--help` says what there is$' "$scratch/err" || fail "$*: $(cat "$scratch/err")"
}
# 125, as env, docker and others have it, where a program's own status would be.
for how in run stats; do
    wrong 125 'gpu not in {auto,cuda,soft}' $barcuda $how --device gpu -- true
    wrong 125 'PROGRAM is required' $barcuda $how
    wrong 125 'there is no such option; did you mean --device?' $barcuda $how --devcie soft true
    wrong 125 "barcuda $how: --frobnicate: there is no such option" $barcuda $how --frobnicate true
done
wrong 125 'PROGRAM is required' $barcuda exec
$run -- sh -c 'exit 2'; [ $? = 2 ] || fail "a program's own status"
wrong 2 'barcuda: lmit: there is no such command; did you mean limit?' $barcuda lmit
wrong 2 'barcuda: dcotor: there is no such command; did you mean doctor?' $barcuda dcotor
wrong 2 'barcuda: frobnicate: there is no such command' $barcuda frobnicate
! grep -q 'did you mean' "$scratch/err" || fail "nothing is like that: $(cat "$scratch/err")"
wrong 2 'barcuda guest: enabel: there is no such command; did you mean enable?' $barcuda guest enabel
wrong 2 'barcuda smi: --jsn: there is no such option; did you mean --json?' $barcuda smi --jsn
for seconds in never nan -nan inf 0 0.09 3601; do wrong 2 'a number of seconds from 0.1 to 3600' $barcuda top "--interval=$seconds"; done
wrong 2 'barcuda-bridge: --regoin: there is no such option; did you mean --region?' "$build/bin/barcuda-bridge" --regoin "$scratch/region"
wrong 2 'barcuda-exporter: --listne: there is no such option; did you mean --listen?' "$build/bin/barcuda-exporter" --listne x
$barcuda > "$scratch/out" && grep -q '^Subcommands:' "$scratch/out" || fail "no help without a word"
for command in "" ps top metrics doctor smi limit run; do $barcuda $command --help > "$scratch/out" && grep -q '^Usage' "$scratch/out" || fail "help of $command"; done
# help, as other programs have it.
same_help() { # same_help WORDS...: of `barcuda help WORDS` and `barcuda WORDS --help`
    $barcuda help "$@" > "$scratch/out" 2>&1 && $barcuda "$@" --help > "$scratch/expected" && cmp "$scratch/out" "$scratch/expected" || fail "help $*: $(cat "$scratch/out")"
}
same_help; same_help run; same_help guest; same_help guest enable
$barcuda help --help | grep -q '^Subcommands:' || fail "help --help"
wrong 2 'barcuda help: lmit: there is no such command; did you mean limit?' $barcuda help lmit
wrong 2 'barcuda help: enabel: there is no such command; did you mean enable?' $barcuda help guest enabel
wrong 2 'barcuda: list: there is no such command; `barcuda ps` lists bridges' $barcuda list
wrong 2 'barcuda: stop: there is no such command; `systemctl stop barcuda-bridge@NAME`' $barcuda stop
echo "wrong words"
# A region that no one has named, nor any bridge made.
[ -e /dev/shm/barcuda ] || { $barcuda limit > "$scratch/out" 2>&1; [ $? = 1 ] && grep -q '^barcuda limit: /dev/shm/barcuda: there is no such region; --region' "$scratch/out" || fail "limit: $(cat "$scratch/out")"; }

# doctor, with a bridge, when it stands still, and without one.
doctor() { # doctor STATUS EXPRESSION: of what it says as JSON, as d
    BARCUDA_REGION="$scratch/region" $barcuda doctor --json > "$scratch/json"
    [ $? = "$1" ] || fail "doctor ends otherwise than with $1: $(cat "$scratch/json")"
    python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); what = [(f["state"], f["what"]) for f in d["findings"]]; sys.exit(not eval(sys.argv[2]))' "$scratch/json" "$2" ||
        fail "$2: $(cat "$scratch/json")"
}
silent="any(s == 'missing' and 'silent' in w for s, w in what)"
nobody="('missing', 'a bridge: none serves this region') in what"
serve --no-vm --name "usage-$$"
doctor 0 "('ok', 'a bridge serves it') in what and any(w.startswith('bridge usage-$$ (pid $bridge) serves ') for s, w in what) and d['missing'] == 0"
doctor 0 "d['as'] == 'host' and not any('uio_barcuda' in w for s, w in what) and any(c['name'] == 'core' for c in d['cage'])"
kill -STOP "$bridge"
doctor 1 "$silent and d['missing'] == 2"
kill -CONT "$bridge"
kill -KILL "$bridge"; wait "$bridge" 2> /dev/null; bridge=
doctor 1 "$nobody or $silent"
for _ in $(seq 100); do grep -q 'none serves' "$scratch/json" && break; doctor 1 "True"; done  # its workers hold its lock until they have ended
doctor 1 "$nobody"
BARCUDA_REGION="$scratch/region" $barcuda doctor > "$scratch/out"
[ $? = 1 ] && grep -q '^  missing  a bridge: none serves this region$' "$scratch/out" && ! grep -q $'\e' "$scratch/out" || fail "doctor: $(cat "$scratch/out")"
# So says a program, at once and in one sentence.
client "$build/programs/vector_add" > "$scratch/out" 2> "$scratch/err" && fail "vector_add without a bridge"
[ "$(grep -c '^barcuda: ' "$scratch/err")" = 1 ] && grep -q "no bridge serves this region; start barcuda-bridge on the host" "$scratch/err" || fail "vector_add says: $(cat "$scratch/out" "$scratch/err")"
serve --no-vm
kill -TERM "$bridge"; wait "$bridge"; bridge=
doctor 1 "$nobody"
echo passed

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What another user of the machine tries against a bridge that runs and against the programs of its user: to read, cut, take or hold up
# what is theirs. First against root's, then against a plain user's.
. "$(dirname "$0")/own_mounts.sh"
own_mounts "a /dev/shm" "$own_shm"
. "$(dirname "$0")/lib.sh"
need setpriv
need flock
python=/usr/bin/python3  # one that every user may run
need $python
chmod 711 "$scratch"
mkdir -m 1777 "$scratch/everybodys"
everybodys=$scratch/everybodys
other="setpriv --reuid=65534 --regid=65534 --clear-groups"
clients=("${guest[@]}")
strangers=()
trap 'kill "${strangers[@]}" 2> /dev/null; finish' EXIT

stranger() { # stranger CODE ARGUMENTS...: Python of another user, in the background, once it says so
    rm -f "$scratch/stranger.out"
    $other $python -c "import os, socket, sys, time
$1
print('running', flush=True); time.sleep(600)" "${@:2}" > "$scratch/stranger.out" 2>&1 &
    strangers+=($!)
    await running "$scratch/stranger.out"
}
alone() { for s in "${strangers[@]}"; do kill "$s" && wait "$s"; done 2> /dev/null; strangers=(); }
denied() { # denied WORDS...: the other user may not
    ! $other "$@" > "$scratch/out" 2>&1 || fail "another user may: $*"
    grep -q "Permission denied\|Operation not permitted" "$scratch/out" || fail "$*: $(cat "$scratch/out")"
}
refused() { # refused TEXT OPTIONS...: the bridge says this, and ends
    local text=$1; shift
    BARCUDA_REGION="$folder/none" timeout 30 $victim "$build/bin/barcuda-bridge" --size 256M --device "$device" --warm 0 "$@" 2> "$scratch/err"
    [ $? = 1 ] || fail "a bridge with $* has not ended by itself: $(cat "$scratch/err")"
    grep -q "$text" "$scratch/err" || fail "not said: '$text' but: $(cat "$scratch/err")"
}
victim_serves() {
    rm -f "$scratch/ready" && mkfifo -m 666 "$scratch/ready"
    $victim "$build/bin/barcuda-bridge" --region "$folder/region" --size 256M --device "$device" --log-level info --ready-fd 9 "$@" 9<> "$scratch/ready" 2> "$scratch/log" &
    bridge=$!
    read -r _ < "$scratch/ready" || fail "the bridge did not come up"
}
stop() { kill "$bridge"; wait "$bridge"; bridge=; }
limit() { timeout 60 $victim "$build/bin/barcuda" limit --region "$folder/region" "$@"; }

try_all() { # against $victim, whose $folder everybody may enter
    echo precious > "$folder/precious" && chown "$uid" "$folder/precious" && chmod 600 "$folder/precious"
    unharmed() { [ "$(cat "$folder/precious")" = precious ] || fail "$1 was followed: $(cat "$folder/precious")"; }

    # ---- names that are free: taken before the bridge comes
    local there=$everybodys/there
    for what in region turns; do
        option="--$what $there"
        [ $what = turns ] && option="--weight 1 $option"
        $other sh -c "umask 0; echo mine > $there"
        refused 'belongs to user 65534' $option
        [ "$(cat "$there")" = mine ] || fail "another's file was written to"
        rm "$there" && $other ln -s "$folder/precious" "$there"
        refused 'symbolic link' $option
        rm "$there" && $other mkfifo -m 666 "$there"
        refused "$there" $option
        rm "$there" && $other mkdir -m 777 "$there"
        refused "$there" $option
        rmdir "$there"
        truncate -s 0 "$folder/empty" && chown "$uid" "$folder/empty"
        if $other ln "$folder/empty" "$there" 2> /dev/null || ln "$folder/empty" "$there"; then  # if not he, somebody else was so careless
            refused 'second name\|2 names' $option
            [ ! -s "$folder/empty" ] || fail "a file of another name was filled"
            rm "$there"
        fi
        unharmed "a link at --$what"
    done
    rm -f "$folder/empty" "$folder/none"
    for kind in AF_UNIX link; do
        if [ $kind = link ]; then $other ln -s "$folder/precious" "$there"
        else $other $python -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$there"; fi
        [ "$uid" = 0 ] && [ $kind = AF_UNIX ] && { rm "$there"; continue; }  # root may remove it, and does, as a socket that a bridge has left
        refused 'cannot listen' --doorbell "$there"
        rm "$there"
    done
    unharmed "a link at --doorbell"
    rm -f "$folder/none"
    echo "$uid: what another has put there is not taken"

    # ---- a bridge that runs
    $victim touch "$folder/region" && $victim chmod 660 "$folder/region"
    # Sockets where `barcuda limit` could look for the bridge, that nobody answers at, and names of the kernel's.
    stranger '
s = os.stat(sys.argv[1])
kept = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for i in range(8)]
os.umask(0)
for i, door in enumerate(kept):
    door.bind(f"/dev/shm/barcuda-limits-{s.st_dev}-{s.st_ino}-{i}" if i else f"\0barcuda-limits/{s.st_dev}/{s.st_ino}")
    door.listen(0)' "$folder/region"
    victim_serves --doorbell "$folder/doorbell" --weight 1 --turns "$folder/turns"
    for file in region turns precious; do
        for how in 'cat' 'truncate -s 0' 'flock -n'; do denied $how "$folder/$file" true; done
    done
    denied $python -c 'import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])' "$folder/doorbell"
    start one "$build/e2e/endless"; one=$!
    worker=$(sed -n 's/.*client admitted, worker \([0-9]*\).*/\1/p' "$scratch/log")
    for process in $bridge $worker $one; do
        for file in environ maps mem; do denied cat "/proc/$process/$file"; done
        denied ls "/proc/$process/fd/"
    done
    ! $other env BARCUDA_REGION="$folder/region" "${clients[@]:2}" "$build/programs/vector_add" > "$scratch/out" 2>&1 || fail "another user's program runs there"
    grep -qi 'permission denied\|belongs to user' "$scratch/out" || fail "another user's program: $(cat "$scratch/out")"
    limit guest-channels=7 || fail "with its names squatted"
    limit --json | grep -q '"limit": 7' || fail "limits: $(limit --json)"
    ! timeout 60 setpriv --reuid=65532 --regid=65532 --clear-groups "$build/bin/barcuda" limit --region "$folder/region" guest-channels=8 > "$scratch/out" 2>&1 || fail "another user changes limits"
    grep -q 'only that user and root' "$scratch/out" || fail "another user is told $(cat "$scratch/out")"
    for door in /dev/shm/barcuda-limits-*; do
        [ "$(stat -c %u "$door")" = "$uid" ] || continue
        denied $python -c 'import socket, sys; socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect(sys.argv[1])' "$door"
        doors=$((${doors:-0} + 1))
    done
    [ "$doors" = 1 ] || fail "$doors sockets of the bridge: $(ls -l /dev/shm)"
    doors=0
    alone
    kill $one; wait $one 2> /dev/null
    # A bridge that is killed leaves its socket; the next one of that user removes it.
    kill -9 "$bridge"; wait "$bridge" 2> /dev/null
    victim_serves
    [ "$(find /dev/shm -maxdepth 1 -name 'barcuda-limits-*' -uid "$uid" | wc -l)" = 1 ] || fail "sockets: $(ls -l /dev/shm)"
    stop
    [ "$(find /dev/shm -maxdepth 1 -uid "$uid" -type s | wc -l)" = 0 ] || fail "sockets that are left behind: $(ls -l /dev/shm)"
    echo "$uid: a bridge that runs is not read, cut, changed or held up"

    # ---- files that a user names
    victim_serves
    for name in TRACE STATS; do
        out=$everybodys/out
        $other ln -s "$folder/precious" "$out"
        timeout 60 env "BARCUDA_$name=$out" "${guest[@]}" "$build/programs/vector_add" > "$scratch/out" 2>&1 || fail "with a link: $(cat "$scratch/out")"
        unharmed "a link at BARCUDA_$name"
        rm "$out"
        for make in 'touch' 'mkfifo -m 666'; do
            $other sh -c "umask 0; $make $out"
            timeout 60 env "BARCUDA_$name=$out" "${guest[@]}" "$build/programs/vector_add" > "$scratch/out" 2>&1 || fail "BARCUDA_$name, $make: $(cat "$scratch/out")"
            [ ! -s "$out" ] || fail "BARCUDA_$name: it was written into another's file"
            rm "$out"
        done
        timeout 60 env "BARCUDA_$name=$out" "${guest[@]}" "$build/programs/vector_add" > "$scratch/out" 2>&1 || fail "BARCUDA_$name: $(cat "$scratch/out")"
        [ -s "$out" ] && [ "$(stat -c %u:%a "$out")" = "$uid:600" ] || fail "BARCUDA_$name: $(stat -c %u:%a "$out")"
        denied cat "$out"
        rm "$out"
    done
    # A process with nonsense where the software GPU's books are.
    stranger 'os.dup2(os.memfd_create("barcuda-ledger"), 700); os.write(700, (1).to_bytes(8, "little") + os.getpid().to_bytes(8, "little") + b"\xff" * 4096)'
    timeout 60 $victim "$build/bin/barcuda" smi --device soft > "$scratch/out" 2>&1 || fail "barcuda smi: $(cat "$scratch/out")"
    "${guest[@]}" "$build/programs/vector_add" | grep -q PASSED || fail "a program beside a false ledger"
    alone
    stop
    rm -rf "${folder:?}"/*
    echo "$uid: what programs write goes into no other's file"
}
against() { # against UID
    uid=$1 folder=$scratch/of-$1 victim=
    mkdir -m 755 "$folder" && chown "$uid:$uid" "$folder"
    [ "$uid" = 0 ] || victim="setpriv --reuid=$uid --regid=$uid --clear-groups"
    guest=($victim env BARCUDA_REGION="$folder/region" "${clients[@]:2}")
    try_all
}
against 0
against 65533

# Whoever may open the file of turns can hold its lock: a bridge does not wait for that one for ever.
uid=0 victim='' folder=$scratch/of-0
touch "$folder/turns"
(exec 9< "$folder/turns"; flock 9; exec sleep 600) & strangers+=($!)
until ! flock -n "$folder/turns" true; do sleep 0.02; done
refused 'somebody holds its lock' --weight 1 --turns "$folder/turns"
echo passed

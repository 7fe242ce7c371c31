#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# barcuda-device-plugin against a kubelet's side of the published protocol (kubelet.cc), with bridges that run: it registers, lists, answers what
# a container needs, with which alone a program then runs; it follows bridges that are killed and come back, and a kubelet that starts anew.
. "$(dirname "$0")/../lib.sh"
plugin=$build/bin/barcuda-device-plugin
for file in "$plugin" "$build/e2e/kubelet"; do [ -x "$file" ] || { echo "skipped: $file is missing: make kubernetes"; exit 77; }; done
need python3
unshare --map-root-user --mount true 2> /dev/null || { echo "skipped: no namespace of mounts for what stands for a container"; exit 77; }
one=one$$ two=two$$ # other tests' bridges run at the same time
others=()
trap 'kill "${others[@]}" 2> /dev/null; finish' EXIT
mkdir "$scratch/kubelet" "$scratch/cdi"

kubelet() { # its output in $scratch/said, its input at descriptor 7
    rm -f "$scratch/orders" && mkfifo "$scratch/orders"
    "$build/e2e/kubelet" "$scratch/kubelet" < "$scratch/orders" >> "$scratch/said" 2>&1 &
    kubelet=$! && others+=("$kubelet")
    exec 7> "$scratch/orders"
}
order() { : > "$scratch/said" && echo "$*" >&7; } # the file is written to at its end
start_plugin() { # its log in $scratch/plugin
    "$plugin" --kubelet "$scratch/kubelet" --bridge "$one" --bridge "$two" "$@" 2> "$scratch/plugin" 7>&- &
    others+=("$!")
}
# As a container: only what was answered, in a namespace of mounts of its own.
contained() {
    grep '^variable ' "$scratch/answer" | cut -d ' ' -f 2- > "$scratch/variables"
    grep '^mount ' "$scratch/answer" | cut -d ' ' -f 2- > "$scratch/mounts"
    unshare --map-root-user --mount bash -c '
        scratch=$1; shift
        mount -t tmpfs tmpfs /run
        while read -r from to how; do
            if [ -d "$from" ]; then mkdir -p "$to"; else mkdir -p "${to%/*}" && touch "$to"; fi
            mount --rbind "$from" "$to" || exit
        done < "$scratch/mounts"
        mapfile -t variables < "$scratch/variables"
        exec env -i "${variables[@]}" "$@"' - "$scratch" "$@"
}
allocate() { order allocate "$@" && await '^allocated\|^refused' "$scratch/said" && cp "$scratch/said" "$scratch/answer"; }

serve --no-vm --name "$one"
start_plugin --shares 3 --cdi "$scratch/cdi"
first=$!
await 'no kubelet.*waiting for it' "$scratch/plugin"
kubelet
await '^registered barcuda.dev/gpu at barcuda.sock$' "$scratch/said"
await "^devices $one-0=Healthy $one-1=Healthy $one-2=Healthy\$" "$scratch/said"
await '^it prefers some$' "$scratch/said"

allocate "$one-1"
grep -q "^mount $scratch/region /run/barcuda/region rw\$" "$scratch/answer" && grep -q "^mount $PWD/$build/lib $PWD/$build/lib ro\$" "$scratch/answer" &&
    grep -q '^variable BARCUDA_REGION=/run/barcuda/region$' "$scratch/answer" && grep -q "^cdi barcuda.dev/gpu=$one\$" "$scratch/answer" || fail "$(cat "$scratch/answer")"
contained "$PWD/$build/programs/vector_add" > "$scratch/out" 2>&1 && grep -q '^PASSED' "$scratch/out" || fail "with what Allocate answered: $(cat "$scratch/out")"
await 'channel 0: client admitted' "$scratch/log"
sed -i '/^variable BARCUDA_REGION/d' "$scratch/answer"
! contained "$PWD/$build/programs/vector_add" > "$scratch/out" 2>&1 || fail "a program without one of its variables has a GPU"
"$build/bin/barcuda" cdi "$one" --region "$scratch/region" > "$scratch/expected" && cmp "$scratch/expected" "$scratch/cdi/barcuda.json" ||
    fail "the specification is not barcuda cdi's: $(cat "$scratch/cdi/barcuda.json")"

# Another user listens where bridges do, and calls itself as the second bridge will be called: its region would be all of the machine's files.
if [ "$(id -u)" = 0 ] && command -v setpriv > /dev/null; then
    cat > "$scratch/thief.py" << 'P'
import glob, os, socket, sys
region, name, door = sys.argv[1:]
def talk(path):
    to = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    to.connect(path)
    to.send(b"\1" + bytes(11))  # ListRequest
    return to.recv(1 << 20)
st = os.stat(region)
said = talk(glob.glob(f"/dev/shm/barcuda-limits-{st.st_dev}-{st.st_ino}-*")[0])
instead = lambda old, new: said.replace(old + b"\0" * max(0, len(new) - len(old)), new + b"\0" * max(0, len(old) - len(new)), 1)
said = instead(region.encode(), b"/")
said = said[:260] + name.encode().ljust(64, b"\0") + said[324:]  # ListReply's name
os.setgid(65534), os.setuid(65534)
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind(door), listener.listen(8)
print("listens", flush=True)
while True:
    visitor = listener.accept()[0]
    visitor.recv(4096), visitor.send(said), visitor.close()
P
    door=/dev/shm/barcuda-limits-1-1-$two
    trap 'kill "${others[@]}" 2> /dev/null; rm -f "$door"; finish' EXIT
    python3 "$scratch/thief.py" "$scratch/region" "$two" "$door" > "$scratch/thief" 7>&- &
    others+=("$!")
    await listens "$scratch/thief"
    "$build/bin/barcuda" ps | grep -q "^$two " || fail "the other user answers no one, so this shows nothing: $("$build/bin/barcuda" ps)"
else
    echo "another user's bridge: not tried, without root and setpriv"
fi

# Another bridge comes. A container gets shares of one of them.
"$build/bin/barcuda-bridge" --region "$scratch/other" --size 256M --device "$device" --no-vm --name "$two" 2> /dev/null 7>&- &
second=$! && others+=("$second")
await "$one-2=Healthy $two-0=Healthy $two-1=Healthy $two-2=Healthy\$" "$scratch/said"
allocate "$one-0" "$two-0"
grep -q '^refused a container gets shares of one bridge' "$scratch/answer" || fail "shares of two bridges: $(cat "$scratch/answer")"
for id in "$one-3" three-0; do
    allocate "$id" && grep -q "^refused $id: there is no such share of a bridge" "$scratch/answer" || fail "$(cat "$scratch/answer")"
done
order prefer 2 "$one-0" "$two-0" "$two-2" && await "^preferred $two-0 $two-2\$" "$scratch/said"
python3 -c 'import json, sys; assert [d["name"] for d in json.load(open(sys.argv[1]))["devices"]] == sys.argv[2:]' "$scratch/cdi/barcuda.json" "$one" "$two" ||
    fail "$(cat "$scratch/cdi/barcuda.json")"

# A bridge is killed, and comes back.
kill -9 "$bridge" && wait "$bridge" 2> /dev/null
await "$one-0=Unhealthy $one-1=Unhealthy $one-2=Unhealthy $two-0=Healthy" "$scratch/said"
allocate "$one-0"
grep -q "^refused $one: its bridge does not answer; start it on the node" "$scratch/answer" || fail "a bridge that is dead: $(cat "$scratch/answer")"
serve --no-vm --name "$one"
await "$one-0=Healthy $one-1=Healthy" "$scratch/said"

# The kubelet starts anew: it empties its folder.
kill -9 "$kubelet" && wait "$kubelet" 2> /dev/null
exec 7>&-
kubelet
await '^registered barcuda.dev/gpu at barcuda.sock$' "$scratch/said"
await "^devices $one-0=Healthy" "$scratch/said"
allocate "$two-0" && grep -q "^mount $scratch/other /run/barcuda/region rw" "$scratch/answer" || fail "after the kubelet's start: $(cat "$scratch/answer")"

# It ends when it is told to, and leaves no socket.
kill "$first" && wait "$first" || fail "the plugin ended with status $?"
await '^the plugin has gone$' "$scratch/said"
[ ! -e "$scratch/kubelet/barcuda.sock" ] || fail "it leaves its socket"

# For KubeVirt's VMs: bridges that wait for one.
kill "$second" && wait "$second" 2> /dev/null
kill "$bridge" && wait "$bridge" 2> /dev/null
serve --name "$one"
start_plugin --vms
await '^registered barcuda.dev/vm at barcuda-vm.sock$' "$scratch/said"
await "^devices $one-0=Healthy\$" "$scratch/said"
allocate "$one-0"
[ "$(cat "$scratch/answer")" = "mount $scratch/region /dev/shm/barcuda rw
allocated" ] || fail "for a VM: $(cat "$scratch/answer")"
echo passed

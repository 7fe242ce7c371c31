#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A library and a bridge of different days. What the bridge lacks answers by name, and no program notices that does without it; a
# command's number is the bridge's; what no program can do without, other packets and another layout are refused, with the side
# that is to be upgraded; and a bridge takes over no client that has read another one's rows.
. "$(dirname "$0")/lib.sh"
facts="$build/e2e/stream_facts"
version=$(cat VERSION)
for program in barcuda barcuda-bridge; do
    "$build/bin/$program" --version | grep -qx "$version, region layout [0-9]*, packets [0-9]*" || fail "$program --version: $("$build/bin/$program" --version)"
done
says() { # says REGEX...: the lines of the program's output
    client "$facts" > "$scratch/out" 2> "$scratch/err" || fail "$(cat "$scratch/out" "$scratch/err")"
    for line in "$@"; do grep -qx -- "$line" "$scratch/out" || fail "not '$line' but: $(cat "$scratch/out" "$scratch/err")"; done
}
refused() { # refused WORDS...: the client says each of them, and CUDA says that there is no device
    client "$facts" > "$scratch/out" 2>&1 && fail "a program ran where '$1' was expected"
    for words in "$@"; do grep -q -- "$words" "$scratch/out" || fail "not said: '$words' but: $(cat "$scratch/out")"; done
}
another() { # another CHANGE...: what $build/e2e/rows makes of our library is the one that programs run under
    rm -rf "$scratch/lib" && mkdir "$scratch/lib" && cp -a "$build/lib/libbarcuda.so" "$build/lib/barcuda" "$scratch/lib" &&
        "$build/e2e/rows" "$scratch/lib/libbarcuda.so" "$@" || fail "rows $*"
    library "$scratch/lib"
}
ours() { library "$PWD/$build/lib"; }
write() { printf "$2" | dd of="$scratch/region" bs=1 seek="$1" conv=notrunc 2> /dev/null; }

serve
says 'flags cudaSuccess 1, priority cudaSuccess \(-*[0-9]*\) of \1, rows cudaSuccess' PASSED
[ -s "$scratch/err" ] && fail "said of the same version: $(cat "$scratch/err")"
priority=$(sed -n '1s/.*cudaSuccess \(-*[0-9]*\) of.*/\1/p' "$scratch/out")

# A library that finds two of its rows in each other's place: each command goes where the bridge's table says.
another swap cuStreamGetFlags cuStreamGetPriority
says "flags cudaSuccess $priority, priority cudaSuccess 1 of $priority, rows cudaSuccess" PASSED
echo "commands have the bridge's numbers"

# A call and a posted command that the bridge lacks: once by name, and the rest is as ever.
another other cuStreamGetPriority cuMemsetD2D8Async
none=cudaErrorNotSupported
says "flags cudaSuccess 1, priority $none 77 of $priority, rows $none" PASSED
for name in cuStreamGetPriority cuMemsetD2D8Async; do
    [ "$(grep -cx "barcuda: $name is not supported by this bridge ($version): upgrade barcuda-bridge on the host" "$scratch/err")" = 1 ] ||
        fail "$name was not said once: $(cat "$scratch/err")"
done
for program in vector_add device_info two_streams graph_capture; do
    client "$build/programs/$program" > "$scratch/out" 2>&1 || fail "$program does without them: $(cat "$scratch/out")"
done
mkdir "$scratch/bin" && cp "$build/bin/barcuda" "$scratch/bin"
"$build/e2e/rows" "$scratch/bin/barcuda" other cuStreamGetPriority cuMemsetD2D8Async || fail rows
BARCUDA_REGION="$scratch/region" "$scratch/bin/barcuda" doctor > "$scratch/out"
for name in cuStreamGetPriority cuMemsetD2D8Async; do
    grep -q "that bridge lacks 2 commands .*[ ,]$name\\b" "$scratch/out" || fail "doctor: $(cat "$scratch/out")"
done
echo "what a bridge lacks answers by name"

# Whichever it is, a program that needs it ends by an error and knows why; none waits for what will not come.
for name in $("$build/e2e/rows" names | grep -v '^cublas\|^curand'); do
    another other "$name"
    timeout 120 "${guest[@]}" "$build/programs/two_streams" > "$scratch/out" 2>&1; status=$?
    [ $status -lt 124 ] || fail "without $name two_streams ends with $status: $(cat "$scratch/out")"
    [ $status = 0 ] || grep -q "barcuda: $name is not supported by this bridge\|the bridge .* has no $name as this library" "$scratch/out" ||
        fail "two_streams does not say what it lacks, $name: $(cat "$scratch/out")"
done
echo "no program waits for a command that its bridge lacks"

another other write_fence
refused "has no write_fence as this library" "upgrade barcuda-bridge on the host"
ours
echo "what every program needs is refused at once"

write 16 '\x00'
refused "packet version 0," "upgrade barcuda-bridge on the host"
write 16 '\xff'
refused "packet version 255," "upgrade Barcuda in this guest"
write 16 '\x01'; write 8 '\xff'
refused "layout version 255," "upgrade Barcuda in this guest, library and kernel module"
write 8 '\x05'
refused "layout version 5," "upgrade barcuda-bridge on the host"
kill "$bridge"; wait "$bridge"; bridge=
"$build/bin/barcuda-bridge" --region "$scratch/region" --device "$device" 2> "$scratch/err" && fail "the bridge took another layout over"
grep -q "layout is number 5.*--overwrite" "$scratch/err" || fail "$(cat "$scratch/err")"
serve --overwrite
says PASSED
echo "other layouts and packets are refused"

# A bridge of another version (it stands still) is there when a program starts, then goes, and this bridge comes: its numbers are others.
kill -STOP "$bridge"
"$build/e2e/rows" "$scratch/region" swap cuStreamGetFlags cuStreamGetPriority || fail rows
before=$("$build/e2e/rows" "$scratch/region" opened)
"${guest[@]}" "$facts" > "$scratch/out" 2>&1 & program=$!
until [ "$("$build/e2e/rows" "$scratch/region" opened)" != "$before" ]; do
    kill -0 $program 2> /dev/null || fail "ended early: $(cat "$scratch/out")"
    sleep 0.01
done
kill -STOP $program  # it would not wait for a bridge for ever
kill -KILL "$bridge"; wait "$bridge" 2> /dev/null
serve
kill -CONT $program
wait $program && fail "a program was served with another bridge's numbers: $(cat "$scratch/out")"
grep -q "the bridge was replaced by one of another version" "$scratch/out" || fail "$(cat "$scratch/out")"
says "flags cudaSuccess 1, priority cudaSuccess $priority of $priority, rows cudaSuccess" PASSED
echo passed

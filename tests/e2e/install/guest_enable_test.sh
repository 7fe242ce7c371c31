#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `barcuda guest enable`: programs run with no variable set by hand, by each of the ways; what others wrote in the same files stays, and
# `disable` leaves files as they were. In an /etc and a /dev/shm of the test's own.
. "$(dirname "$0")/../own_mounts.sh"
own_mounts "an /etc" "$own_shm_and_etc"
. "$(dirname "$0")/../lib.sh"
barcuda=$PWD/$build/bin/barcuda program=$PWD/$build/programs/vector_add
printf 'A=1\n' >> /etc/environment
rm -f /etc/ld.so.preload
cp -a /etc "$scratch/etc"
as_it_was() { diff -r --no-dereference "$scratch/etc" /etc > "$scratch/diff" || fail "$1 left: $(cat "$scratch/diff")"; }
passes() { "$@" "$program" > "$scratch/out" 2>&1 && grep -q '^PASSED' "$scratch/out" || fail "$*: $(cat "$scratch/out")"; }
size=512M serve
region="BARCUDA_REGION=$scratch/region"  # in place of a VM's, which programs find by themselves
command -v nvidia-smi > /dev/null || ! env -i "$region" "$program" > "$scratch/out" 2>&1 || fail "it runs with nothing enabled"

status() { # status WORDS: what `barcuda guest` says, each time it is asked
    "$barcuda" guest > "$scratch/out" 2> /dev/null && "$barcuda" guest status 2> /dev/null | cmp "$scratch/out" - && grep -qE "$1" "$scratch/out" || fail "guest status: not '$1' but: $(cat "$scratch/out")"
}
status '^enabled +for no program'
export BARCUDA_REGION=$scratch/region
status "^region +$scratch/region, 512 MiB, [0-9]+ GPUs$"
unset BARCUDA_REGION
"$barcuda" guest enable > "$scratch/out" 2>&1 || fail "enable: $(cat "$scratch/out")"
status '^enabled +for logins, ssh, cron, su \(/etc/environment\)$'
status '^ +for services \(/etc/systemd/system.conf.d/50-barcuda.conf\)$'
grep -qx 'A=1' /etc/environment || fail "somebody's line is gone: $(cat /etc/environment)"
passes env -i "$region" $(grep -v '^#' /etc/environment)
passes env -i "$region" $(grep -v '^#' /etc/environment.d/50-barcuda.conf)
[ "$(sed -n 's/^DefaultEnvironment=//p' /etc/systemd/system.conf.d/50-barcuda.conf | tr -d '"' | tr ' ' '\n')" = "$(grep -v '^#' /etc/environment.d/50-barcuda.conf)" ] ||
    fail "services are told $(cat /etc/systemd/system.conf.d/50-barcuda.conf)"
cp -a /etc/environment "$scratch/once"
"$barcuda" guest enable > /dev/null && cmp -s "$scratch/once" /etc/environment || fail "twice is not once: $(cat /etc/environment)"
"$barcuda" guest disable > "$scratch/out" || fail "disable: $(cat "$scratch/out")"
find /etc/environment.d /etc/systemd/system.conf.d -maxdepth 0 -empty -delete 2> /dev/null
as_it_was "enable and disable"
[ "$("$barcuda" guest disable)" = "nothing was enabled here" ] || fail "there was something left to disable"
status '^enabled +for no program'

printf '/no/other.so\n' > /etc/ld.so.preload
"$barcuda" guest enable --every-program > "$scratch/out" 2>&1 || fail "enable --every-program: $(cat "$scratch/out")"
passes env -i "$region"
status '^ +for every program, however it is started \(/etc/ld.so.preload\)$'
printf 'int main(void) { return 0; }\n' > "$scratch/plain.c" && gcc -o "$scratch/plain" "$scratch/plain.c" && env -i "$scratch/plain" || fail "a program without CUDA"
"$barcuda" guest disable > /dev/null || fail "disable"
[ "$(cat /etc/ld.so.preload)" = /no/other.so ] || fail "ld.so.preload: $(cat /etc/ld.so.preload)"
rm /etc/ld.so.preload
find /etc/environment.d /etc/systemd/system.conf.d -maxdepth 0 -empty -delete 2> /dev/null
as_it_was "--every-program"

# A program that runs as another user than the one who started it is not led by that one's variables.
if command -v setpriv > /dev/null; then
    chmod 1777 "$scratch"
    "$barcuda" guest enable --every-program > /dev/null
    cp "$program" "$scratch/suid" && chmod u+s,a+rx "$scratch/suid"
    setpriv --reuid=65534 --regid=65534 --clear-groups env -i BARCUDA_STATS="$scratch/stats" BARCUDA_TRACE="$scratch/trace" BARCUDA_REGION=/no/region \
        LD_LIBRARY_PATH=/nowhere "$scratch/suid" > "$scratch/out" 2>&1
    grep -q /no/region "$scratch/out" && fail "a variable leads root's program: $(cat "$scratch/out")"
    [ ! -e "$scratch/stats" ] && [ ! -e "$scratch/trace" ] || fail "root's program wrote a file of another's choice"
    "$barcuda" guest disable > /dev/null
    setpriv --reuid=65534 --regid=65534 --clear-groups "$barcuda" guest enable > "$scratch/out" 2>&1 && fail "somebody else enables it"
    grep -q -- --user "$scratch/out" || fail "not told of --user: $(cat "$scratch/out")"
fi

export HOME=$scratch/home
mkdir "$HOME" && echo 'B=1' > "$HOME/.profile"
"$barcuda" guest enable --user > "$scratch/out" || fail "--user: $(cat "$scratch/out")"
status "^ +for your login shells \\($HOME/.profile\\)$"
passes env -i "$region" sh -c '. "$1"/.profile; [ $B = 1 ] && exec "$2"' sh "$HOME"
"$barcuda" guest disable --user > /dev/null && [ "$(cat "$HOME/.profile")" = B=1 ] || fail "--user: $(cat "$HOME/.profile")"
mkdir -p "$scratch/root/etc" && echo LD_PRELOAD=/other.so > "$scratch/root/etc/environment"
! "$barcuda" guest enable --root "$scratch/root" > "$scratch/out" 2>&1 || fail "another library's line"
grep -q "/other.so" "$scratch/out" && [ "$(ls "$scratch/root/etc")" = environment ] || fail "$(cat "$scratch/out")"
echo passed

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Another user of the machine who watches the folder of regions gets none of his own into `barcuda run`, and none at a bridge's
# predictable name. In a /dev/shm of the test's own: he would take the regions of others as well.
. "$(dirname "$0")/../own_mounts.sh"
own_mounts "a /dev/shm" "$own_shm"
. "$(dirname "$0")/../lib.sh"
need setpriv
need g++
nobody="setpriv --reuid=65534 --regid=65534 --clear-groups"
chmod 711 "$scratch"
mkdir -m 1777 "$scratch/everybodys"

# He makes whatever `barcuda run` is about to make: the file, as soon as its name is known and free; a file in its folder.
cat > "$scratch/thief.cc" <<'CC'
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cstdio>
#include <cstring>
#include <string>
static void make(const std::string& path) {
    umask(0);
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL, 0666);
    if (fd >= 0 && ftruncate(fd, 256 << 20) == 0) printf("made %s\n", path.c_str());
    close(fd);
}
int main() {
    const int watch = inotify_init();
    if (inotify_add_watch(watch, "/dev/shm", IN_CREATE | IN_DELETE) < 0) return 1;
    printf("running\n");
    alignas(inotify_event) char events[4096];
    for (ssize_t n; fflush(stdout), (n = read(watch, events, sizeof events)) > 0;)
        for (char* at = events; at < events + n;) {
            auto* e = reinterpret_cast<inotify_event*>(at);
            at += sizeof *e + e->len;
            if (strncmp(e->name, "barcuda-run-", 12)) continue;
            printf("saw %s\n", e->name);
            make(std::string("/dev/shm/") + e->name);
            make(std::string("/dev/shm/") + e->name + "/region");
        }
}
CC
g++ -O2 -o "$scratch/thief" "$scratch/thief.cc" || fail "g++"
$nobody "$scratch/thief" > "$scratch/thief.out" &
thief=$!
trap 'kill $thief; finish' EXIT
await running "$scratch/thief.out"
for _ in 1 2 3 4 5; do
    owner=$($run --region-size 256M -- sh -c 'stat -c "%u %a" "$(dirname "$BARCUDA_REGION")" "$BARCUDA_REGION"')
    [ "$(head -n 1 <<< "$owner")" = "0 700" ] || fail "the region's folder: '$owner' (owner, mode)"
    [[ "$(tail -n 1 <<< "$owner")" == "0 6"?0 ]] || fail "the region: '$owner' (owner, mode)"
done
touch /dev/shm/barcuda-run-end && await 'saw barcuda-run-end' "$scratch/thief.out"  # now he has come to all before
# A name that is free again, when all is over, is anybody's.
[ "$(grep -c '^saw barcuda-run-' "$scratch/thief.out")" -ge 5 ] || fail "the thief did not see the runs, so this shows nothing"
grep '^made .*/region$' "$scratch/thief.out" && fail "another user made a file in the folder"

refused() { # refused WORDS: the bridge does not take what is there
    timeout 20 "$build/bin/barcuda-bridge" --region "$scratch/everybodys/region" --size 256M --overwrite --device "$device" 2> "$scratch/err"
    [ $? = 1 ] || fail "the bridge took a region that is $1"
    grep -q "$1" "$scratch/err" || fail "not said: '$1' but: $(cat "$scratch/err")"
}
$nobody sh -c "umask 0; truncate -s 256M '$scratch/everybodys/region'" || fail "a file of nobody's"
refused 'belongs to user 65534'
rm "$scratch/everybodys/region"
echo precious > "$scratch/precious"
$nobody ln -s "$scratch/precious" "$scratch/everybodys/region" || fail "a link of nobody's"
refused 'a symbolic link'
[ "$(cat "$scratch/precious")" = precious ] || fail "the link's file was written to"
# Nor is a container given what that link leads to.
! "$build/bin/barcuda" cdi vm1 --region "$scratch/everybodys/region" > "$scratch/out" 2> "$scratch/err" || fail "a link for containers: $(cat "$scratch/out")"
grep -q 'a symbolic link, not a region' "$scratch/err" && [ ! -s "$scratch/out" ] || fail "not said of the link: $(cat "$scratch/out" "$scratch/err")"
echo passed

# SPDX-License-Identifier: Apache-2.0
# own_mounts.sh: for tests that want folders of the system for themselves: read before lib.sh, which makes files there. The test begins
# again in a namespace of mounts, as the same user.
own_shm='mount -t tmpfs -o mode=1777 tmpfs /dev/shm'
may_mount() { [ "$(id -u)" = 0 ] && unshare --mount sh -c "$1" 2> /dev/null; } # may_mount COMMANDS
own_mounts() { # own_mounts WHAT COMMANDS: the commands mount WHAT; skipped where that may not be
    [ -z "${has_own_mounts:-}" ] || return 0
    [ "$(id -u)" = 0 ] || { echo "skipped: needs root, for $1 of its own"; exit 77; }
    may_mount "$2" || { echo "skipped: may not mount $1 of its own"; exit 77; }
    exec unshare --mount sh -c "$2"' && has_own_mounts=1 exec "$0"' "$0"
}

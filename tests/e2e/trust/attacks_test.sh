#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Somebody who has taken a worker over (attacks.cc, from inside NVIDIA's cage) reaches nothing that is not its client's: no other VM's
# region, no socket, file or process of anybody's, no bridge and no part of the kernel. The driver behind it is the software GPU,
# or, with --device cuda, the real one: DEVICE=cuda tests/e2e/trust/attacks_test.sh.
. "$(dirname "$0")/../lib.sh"
chmod 711 "$scratch"
other='' server='' not=()
trap 'for pid in $other $server; do kill "$pid"; done 2> /dev/null; finish' EXIT

# A driver with a stranger inside, called libcuda.so.1. ($ATTACKS: a folder where they have been built, for a machine without a compiler.)
mkdir -p "$scratch/real" "$scratch/nvidia"
if [ -n "${ATTACKS:-}" ]; then cp "$ATTACKS/libcuda.so.1" "$scratch/nvidia" && cp "$ATTACKS/attack" "$scratch" || fail "$ATTACKS"
else
    need g++
    g++ -shared -Wl,-soname,libreal.so -o "$scratch/real/libreal.so" -x c /dev/null || fail "g++"
    inside=(-std=c++20 -O1 -I. -D_GNU_SOURCE -static-libstdc++ -static-libgcc tests/e2e/trust/attacks.cc)
    g++ -fPIC -shared "${inside[@]}" -o "$scratch/nvidia/libcuda.so.1" -Wl,--no-as-needed "$scratch/real/libreal.so" || fail "g++"
    g++ -DCLIENT "${inside[@]}" -o "$scratch/attack" "$build/lib/libbarcuda.so" || fail "g++"
    [ "${1:-}" != build ] || { cp "$scratch/nvidia/libcuda.so.1" "$scratch/attack" "$2" && exit; }
fi
if [ "$device" = soft ]; then cp "$build/lib/barcuda-soft/libcuda.so.1" "$scratch/real/libreal.so"
else
    real=$(ldconfig -p | awk '/libcuda\.so\.1 .*x86-64/ { print $NF; exit }')
    for folder in ${LD_LIBRARY_PATH//:/ } /usr/local/nvidia/lib64 /usr/lib/x86_64-linux-gnu; do [ -n "$real" ] || [ ! -e "$folder/libcuda.so.1" ] || real=$folder/libcuda.so.1; done
    [ -n "$real" ] || { echo "skipped: no libcuda.so.1 here"; exit 77; }
    ln -sf "$real" "$scratch/real/libreal.so"
fi
under=(env LD_PRELOAD="$(realpath "$build")/lib/libbarcuda.so" LD_LIBRARY_PATH="$(realpath "$build")/lib/barcuda")
parts=" ${PARTS:-all list open plain} "

# Another VM's bridge, of the same user, and what else that user has. As $user it is all done: as root, and as a user without rights.
attacks() { # attacks USER [unit]: whom bridges run as; of a unit they begin as root, with two capabilities
    user=$1 as=() by=() becomes=()
    others=$scratch/others-$user${2:-}
    mkdir "$others" && chmod 755 "$others"
    for file in victim movable removable; do echo x > "$others/$file" && chmod 600 "$others/$file"; done
    cp "$(type -P true)" "$others/program" && chmod 700 "$others/program"
    if [ "$user" != "$(id -un)" ]; then
        as=(setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups)
        chown -R "$user" "$others"
        by=("${as[@]}")
    fi
    [ "${2:-}" != unit ] || by=(setpriv --bounding-set=-all,+setuid,+setgid) becomes=(--user "$user")
    export BARCUDA_TEST_OTHERS=$others BARCUDA_TEST_ABSTRACT=barcuda-attack-$user${2:-}-$$ BARCUDA_TEST_USER=$(id -u "$user") BARCUDA_TEST_HARMLESS=yes
    mkfifo "$others/started"
    "${as[@]}" "${under[@]}" "$scratch/attack" serve "$others" "$BARCUDA_TEST_ABSTRACT" > "$others/started" & server=$!
    read -r _ < "$others/started" || fail "no sockets to reach"
    other=$(BARCUDA_LOG=warn up "$others/region" --device soft --doorbell "$others/bell") || fail "the other bridge did not come up: $(cat "$others/region.log")"
}
up() { # up REGION OPTIONS...: prints the bridge's pid
    rm -f "$1" "$1.ready" && mkfifo "$1.ready"
    LD_LIBRARY_PATH=$scratch/nvidia:$scratch/real${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "${by[@]}" "$build/bin/barcuda-bridge" --region "$1" --size 256M --log-level info --ready-fd 9 "${@:2}" "${becomes[@]}" \
        9> "$1.ready" 2> "$1.log" > /dev/null & echo $!
    read -r _ < "$1.ready"
}
all_over() {
    { kill "$server" "$other" "$bridge" && wait "$server"; } 2> /dev/null
    for pid in "$other" "$bridge"; do while kill -0 "$pid" 2> /dev/null; do sleep 0.05; done; done
    other='' server='' bridge=''
}
caged() { # caged OPTIONS...
    [ -z "$bridge" ] || { kill "$bridge"; while kill -0 "$bridge" 2> /dev/null; do sleep 0.02; done; }
    bridge=$(up "$others/own" --device cuda --no-vm --doorbell "$others/own-bell" "$@") || fail "the bridge did not come up: $(cat "$others/own.log")"
    cp "$others/own.log" "$scratch/log"
}
answer() { "${as[@]}" "${under[@]}" BARCUDA_REGION="$others/own" "$scratch/attack" "$1" 2> /dev/null; }
tries() { # tries WHAT ATTEMPT...: nothing of it is done
    local what=$1 done=() ended=0 refused=0
    for attempt in "${@:2}"; do
        got=$(answer "$attempt")
        case $got in done) done+=("$attempt") ;; ended) ((++ended)) ;; refused:*) ((++refused)) ;; *) fail "$attempt was answered '$got'" ;; esac
    done
    cp "$others/own.log" "$scratch/log"
    kill -0 "$bridge" || fail "the bridge has ended"
    kill -0 "$other" || fail "another VM's bridge has ended"
    [ ${#done[@]} = 0 ] || fail "$what: done: ${done[*]}"
    [ "$(cat "$others/victim")$(stat -c %a "$others/victim" "$others/program" | tr '\n' ' ')" = "x600 700 " ] || fail "$what: the victim is another one"
    echo "$what: $refused refused, $ended ended the worker"
}
lacks() { grep -q "cage lacks '$1'" "$others/own.log"; }
mapfile -t names < <("${under[@]}" "$scratch/attack" | cut -d' ' -f1)
mapfile -t shown < <("${under[@]}" "$scratch/attack" | sed -n 's/ done$//p')

attacks "$(id -un)"
caged
if lacks syscalls || lacks privileges || lacks capabilities; then echo "skipped: this kernel, or this build, lacks a part of the cage"; exit 77; fi
own=is_bridges_user  # of a plain user's bridge they are
if lacks user; then mapfile -t names < <(printf '%s\n' "${names[@]}" | grep -vx $own); fi
[[ $parts != *" all "* ]] || tries "all measures" "${names[@]}"
"${under[@]}" BARCUDA_REGION="$others/own" "${ATTACKS:-$build/programs}/vector_add" | grep -q PASSED || fail "an honest client"

# Without its list of system calls a worker has no name for them, and is nobody whom they would obey.
if [[ $parts = *" list "* ]] && ! lacks user && ! lacks mounts; then
    caged --no-cage=syscalls
    tries "without the list of system calls" other_region other_doorbell own_doorbell other_limits look_into_shared read_accounts read_secrets read_victim \
        change_victim chmod_victim chmodat_victim chown_victim setuid_victim xattr_victim times_victim link_victim symlink_there rename_victim remove_victim \
        make_folder make_node truncate_victim change_descriptors write_usr write_root stream_socket datagram_socket datagram_by_pair abstract_socket system_bus \
        raw packet limit_bridge read_bridges_limits signal_bridge signal_thread queue_signal idle_bridge affinity_of_bridge nice_bridge io_of_bridge \
        attributes_of_bridge move_pages_of_bridge memory_of_bridge files_of_bridge environment_of_bridge root_of_bridge root_of_first trace_bridge \
        read_process write_process become_bridge become_group gain_capabilities is_bridges_user has_groups leave_mounts leave_network join_first change_root \
        pivot mount_there unmount open_tree_there new_file_system program_in_kernel count_events faults ring key keys kernel_log core_pattern system_request \
        leave_group protected_from_oom disks kernel_memory virtual_machines
fi

# Without a cage they are done, or this would show nothing.
if [[ $parts = *" open "* ]] && [ "$(id -u)" = 0 ]; then
    caged --no-cage=all
    for attempt in "${shown[@]}"; do [ "$(answer "$attempt")" = done ] || not+=("$attempt: $(answer "$attempt")"); done
    [ ${#not[@]} = 0 ] || fail "not done without a cage: ${not[*]}"
    echo "without a cage ${#shown[@]} of ${#shown[@]} are done"
fi
all_over

# A bridge that goes on as a plain user has another one for its workers. One that root has not started has none.
if [[ $parts = *" plain "* ]] && [ "$(id -u)" = 0 ] && command -v setpriv > /dev/null && id nobody > /dev/null 2>&1; then
    bridge=
    attacks nobody unit
    caged
    lacks user || tries "all measures, of a bridge that began as root" "${names[@]}"
    all_over
    attacks nobody
    caged
    mapfile -t names < <(printf '%s\n' "${names[@]}" | grep -vx $own)
    lacks user || fail "a plain user's workers are another user"
    tries "all measures, where a plain user runs the bridge" "${names[@]}"
    all_over
fi
bridge=
echo passed

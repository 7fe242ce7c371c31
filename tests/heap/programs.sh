#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Real programs under the heap: the same results as without it, at threshold 0 (every block in the region) and at the
# default one.
#
#   tests/heap/programs.sh LIBRARY [NAME...]
#
# LIBRARY is preloaded with BARCUDA_HEAP=always. Each program below runs once as it is and once for each threshold; what
# it prints must be the same. A program that is not installed is skipped by name. AFTER is a command that looks whether
# the program has left anything behind. Exit: 0 all the same; 1 a difference, or something left; 77 nothing could run.
set -u
library=$(realpath "$1") || exit 2
shift
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
failed=0 ran=0
python=
for candidate in python3 "$(command -v python3.11)" /usr/local/bin/python3 "${PYTHON:-}"; do
    [ -n "$candidate" ] || continue
    candidate=$("$candidate" -c 'import sys, test.test_threading; print(sys.executable)' 2>/dev/null) && python=$candidate && break
done

needs() {
    for program; do
        command -v "$program" >/dev/null || { echo "skipped: $name: no $program"; return 1; }
    done
}

do_bash() {
    bash -c '
        total=0
        for i in $(seq 1 60); do x=$(echo "$i" | sed s/1/2/ | tr 0-4 5-9); total=$((total + x)); done
        echo $total
        seq 1 3000 | sort -r | while read -r a; do echo "$a"; done | md5sum
        a=(); for i in $(seq 1 5000); do a+=("item $i $i$i$i"); done
        echo "${#a[@]} ${a[4711]}" | cat
        big=$(head -c 300000 /dev/zero | tr "\0" x); echo ${#big}
        diff <(seq 1 100) <(seq 2 101) | md5sum
        (exec -a renamed bash -c "echo \$0"); coproc cat; echo through >&${COPROC[1]}; read -r b <&${COPROC[0]}; echo "$b"
    '
}
do_perl() {
    perl -e '
        my %h; $h{$_ % 5003} .= $_ for 1..200000;
        my @k = sort { length $h{$a} <=> length $h{$b} || $a <=> $b } keys %h;
        print scalar(@k), " $k[0] $k[-1]\n";
        my $s = "abc" x 300000; my $n = () = $s =~ /ca/g; print "$n\n";
        for my $i (1..5) { my $pid = fork; if (!$pid) { $s =~ tr/a/z/; exit(($s =~ tr/z//) == 300000 ? $i : 99) } waitpid $pid, 0; print $? >> 8, "\n" }
        print $s eq "abc" x 300000 ? "same\n" : "changed\n";
        print length(`seq 1 50000`), "\n";'
}
do_python_threading() { suite test_threading; }
do_python_fork() { suite test_multiprocessing_fork; }
# Connected to a bridge, a process has the region open: the one test that counts its child's descriptors sees it.
do_python_subprocess() { suite test_subprocess ${BARCUDA_REGION:+-i test_pass_fds_redirected}; }
do_python_mmap() { suite test_mmap; }
do_python_ctypes() { suite test_ctypes; }
suite() {
    # Some tests of these suites fail in some places anyway: what counts is the same outcome of each test.
    "$python" -m test -v --timeout 400 "$@" >"$here/suite" 2>&1
    echo "status $?"
    sed -n 's/^\(test[^ ]* (.*)\) .* \(ok\|FAIL\|ERROR\|skipped.*\)$/\1 \2/p' "$here/suite" | sort >"$here/outcomes"
    wc -l <"$here/outcomes" && md5sum <"$here/outcomes"
}
do_python_data() {
    "$python" -c '
import hashlib, json, os, zlib, multiprocessing as m
data = [{"id": i, "text": str(i) * 20} for i in range(60000)]
text = json.dumps(data).encode()
def work(k): return zlib.crc32(text[k::7])
with m.get_context("fork").Pool(3) as pool: print(sum(pool.map(work, range(40))))
print(hashlib.sha256(text).hexdigest(), len(zlib.compress(text)))
a = bytearray(50 << 20)
for i in range(0, len(a), 4096): a[i] = i >> 12 & 255
a += a; del a[: 30 << 20]
print(zlib.adler32(a))
r, w = os.pipe()
if os.fork() == 0: os.write(w, str(zlib.adler32(a)).encode()); os._exit(0)
a[0:100] = b"x" * 100
print(os.read(r, 100)); os.wait()'
}
do_gxx() {
    {
        for header in algorithm any array atomic bitset chrono deque filesystem functional future iostream list map memory \
            numeric optional random ranges regex set sstream string thread tuple unordered_map variant vector; do
            echo "#include <$header>"
        done
        echo 'template <int N> struct T { std::map<int, std::vector<std::string>> m; int f() { m[N].push_back("x"); return T<N - 1>().f() + m.size(); } };'
        echo 'template <> struct T<0> { int f() { return 0; } };'
        echo 'int main() { std::regex r("a+b*"); std::cout << T<50>().f() << std::regex_match("aab", r); }'
    } >"$here/large.cc"
    (cd "$here" && g++ -std=c++20 -O1 -c large.cc -o large.o && md5sum <large.o && g++ large.o -o large && ./large) && echo
}
do_make() {
    rm -rf "$here/make" && mkdir "$here/make" && cd "$here/make" || return
    for i in $(seq 1 24); do printf 'int f%d(int x) { return x * %d; }\n' "$i" "$i" >"f$i.c"; done
    {
        printf '#include <stdio.h>\n'; for i in $(seq 1 24); do printf 'int f%d(int);\n' "$i"; done
        printf 'int main(void) { int s = 0;'; for i in $(seq 1 24); do printf 's += f%d(%d);' "$i" "$i"; done
        printf 'printf("%%d\\n", s); return 0; }\n'
    } >main.c
    printf 'objects := $(patsubst %%.c,%%.o,$(wildcard *.c))\nall: $(objects)\n\tcc -o sum $^\n%%.o: %%.c\n\tcc -c -o $@ $<\n' >Makefile
    make -s -j2 && ./sum
}
do_git() {
    rm -rf "$here/git" && mkdir "$here/git" && cd "$here/git" || return
    export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z' GIT_CONFIG_NOSYSTEM=1 HOME="$here"
    git init -q -b main . && git config user.email a@b.c && git config user.name n && git config gc.auto 0
    for i in $(seq 1 12); do seq "$i" $((i * 3000)) >"file$((i % 4))"; git add . && git commit -qm "commit $i"; done
    git checkout -q -b side HEAD~5 && echo side >side && git add side && git commit -qm side && git checkout -q main
    git merge -q -m merge side && git gc -q && git fsck --full 2>&1
    git log --format='%H %s' | md5sum; git diff HEAD~7 --stat | tail -1; git blame file1 | wc -l
    git clone -q . ../clone.$$ && git -C ../clone.$$ log --oneline | wc -l; rm -rf ../clone.$$
}
do_sqlite3() {
    rm -f "$here/db"; sqlite3 "$here/db" '
        create table t(id integer primary key, name text, value real);
        with recursive c(x) as (select 1 union all select x + 1 from c where x < 150000)
            insert into t select x, "name" || (x * 7919 % 100003), x * 0.5 from c;
        create index i on t(name);
        select count(*), sum(value), max(name) from t;
        select count(*) from t a join t b on a.name = b.name;
        delete from t where id % 3 = 0; vacuum; pragma integrity_check; select count(*), sum(id) from t;'
}
do_redis() {
    rm -f "$here/dump.rdb"; socket="$here/redis.sock"
    redis() { LD_PRELOAD= redis-cli -s "$socket" "$@"; }
    start() {
        redis-server --port 0 --unixsocket "$socket" --dir "$here" --save '' --daemonize no >"$here/redis.log" 2>&1 &
        server=$!
        for _ in $(seq 1 200); do redis ping >/dev/null 2>&1 && return; sleep 0.05; done
        echo "no server"
    }
    start
    seq 1 30000 | sed 's/.*/set key& value&&&/' | LD_PRELOAD= redis-cli -s "$socket" | sort | uniq -c
    redis set big "$(head -c 100000 /dev/zero | tr '\0' b)"
    for _ in 1 2 3; do redis append big "$(head -c 100000 /dev/zero | tr '\0' c)"; done
    redis bgsave
    seq 1 5000 | sed 's/.*/set late& &/' | LD_PRELOAD= redis-cli -s "$socket" | sort | uniq -c
    for _ in $(seq 1 200); do redis info persistence | grep -q 'rdb_bgsave_in_progress:0' && break; sleep 0.05; done
    redis info persistence | tr -d '\r' | grep rdb_last_bgsave_status
    redis shutdown nosave; wait "$server"
    start
    redis dbsize; redis strlen big; redis get key777
    redis shutdown nosave; wait "$server"
}

check() {
    name=$1
    (export LD_PRELOAD=; "do_$name") >"$here/native" 2>&1
    ran=1
    for threshold in 0 64K; do
        (
            export LD_PRELOAD="$library" BARCUDA_HEAP=always BARCUDA_THRESHOLD=$threshold
            "do_$name" >"$here/ours" 2>&1
        )
        if cmp -s "$here/native" "$here/ours"; then
            echo "ok: $name, threshold $threshold"
        else
            echo "DIFFERENT: $name, threshold $threshold"
            diff "$here/native" "$here/ours" | head -20
            [ -f "$here/suite" ] && grep -E '^(FAIL|ERROR|barcuda)' "$here/suite" | head -10
            failed=1
        fi
        [ -z "${AFTER:-}" ] || $AFTER || { echo "LEFT BEHIND: $name, threshold $threshold"; failed=1; }
    done
}

[ $# -gt 0 ] || set -- bash perl python_data python_threading python_fork python_subprocess python_mmap python_ctypes gxx make git sqlite3 redis
for name; do
    case $name in
        python_data) python=${python:-$(command -v python3)}; needs "${python:-python3}" || continue ;;
        python*) [ -n "$python" ] || { echo "skipped: $name: no python3 with its test modules (PYTHON=... names one)"; continue; } ;;
        gxx) needs g++ || continue ;;
        redis) needs redis-server redis-cli || continue ;;
        make) needs make cc || continue ;;
        *) needs "$name" || continue ;;
    esac
    check "$name"
done
[ $ran = 1 ] || exit 77
exit $failed

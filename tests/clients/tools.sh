#!/usr/bin/env bash
# The command-line tools of libmemcached and Redis, unmodified, against a running cluster.
#
#   tools.sh memccapable|memcslap|redis-benchmark
#
# Each tool's own exit code counts, and so does every word of error in its output: redis-benchmark and memcslap end
# with 0 after errors. Prints `ok` and `not ok` lines and a last line `N passed, N failed`.
set -u

PASSED=0
FAILED=0
OUTPUT=$(mktemp)
trap 'rm -f "$OUTPUT"' EXIT

# report NAME STATUS: counts one check and shows the output of one that failed.
report() {
    if [ "$2" -eq 0 ]; then
        PASSED=$((PASSED + 1))
        echo "ok $1"
    else
        FAILED=$((FAILED + 1))
        echo "not ok $1"
        sed 's/^/    /' "$OUTPUT" | tail -n 40
    fi
}

# check NAME PATTERN_OF_ERRORS COMMAND...: runs, and fails on a non-zero status or a line that matches.
check() {
    local name=$1 errors=$2 status=0
    shift 2
    timeout 300 "$@" >"$OUTPUT" 2>&1 </dev/null || status=$?
    if grep -qaE "$errors" "$OUTPUT"; then status=1; fi
    report "$name" "$status"
}

split_address() {
    HOST=${1%:*}
    PORT=${1##*:}
}

memccapable_suite() {
    split_address "$SHORTTAIL_MEMCACHED"
    local status=0
    timeout 300 memccapable -a -h "$HOST" -p "$PORT" >"$OUTPUT" 2>&1 </dev/null || status=$?
    cat "$OUTPUT"
    PASSED=$(grep -ac '\[pass\]' "$OUTPUT")
    FAILED=$(grep -ac '\[FAIL\]' "$OUTPUT")
    if [ "$status" -ne 0 ] || [ "$PASSED" -eq 0 ]; then FAILED=$((FAILED > 0 ? FAILED : 1)); fi
}

memcslap_suite() {
    local errors='[Ff]ail|FAIL|[Ee]rror|ERROR|[Tt]imeout' test
    for test in set get mget; do
        check "memcslap --test=$test" "$errors" \
            memcslap --servers="$SHORTTAIL_MEMCACHED" --test="$test" --concurrency=8 --execute-number=2000
    done
    check "memcslap without blocking" "$errors" \
        memcslap --servers="$SHORTTAIL_MEMCACHED" --test=get --concurrency=4 --execute-number=2000 --non-blocking
    local file
    file=$(mktemp)
    head -c 200000 /dev/urandom >"$file"
    check "memccp stores a file" "$errors" memccp --servers="$SHORTTAIL_MEMCACHED" --absolute "$file"
    memccat --servers="$SHORTTAIL_MEMCACHED" "$file" 2>"$OUTPUT" </dev/null | head -c 200000 | cmp - "$file" >>"$OUTPUT" 2>&1
    report "memccat reads it back" $?
    check "memcexist finds it" "$errors" memcexist --servers="$SHORTTAIL_MEMCACHED" "$file"
    check "memctouch touches it" "$errors" memctouch --servers="$SHORTTAIL_MEMCACHED" "$file"
    check "memcrm removes it" "$errors" memcrm --servers="$SHORTTAIL_MEMCACHED" "$file"
    check "memcstat" "FAIL|ERROR" memcstat --servers="$SHORTTAIL_MEMCACHED"
    check "memcping" "$errors" memcping --servers="$SHORTTAIL_MEMCACHED"
    check "memcflush" "$errors" memcflush --servers="$SHORTTAIL_MEMCACHED"
    rm -f "$file"
}

redis_benchmark_suite() {
    split_address "$SHORTTAIL_REDIS"
    local pipeline protocol
    for pipeline in 1 16; do
        for protocol in '' -3; do
            # shellcheck disable=SC2086 # an empty protocol is no argument
            check "redis-benchmark -P $pipeline $protocol" '[Ee]rror|ERR|WARN' redis-benchmark -h "$HOST" -p "$PORT" -q \
                -t ping,set,get,incr,mset -n 20000 -c 20 -d 100 -r 10000 -P "$pipeline" $protocol
        done
    done
    check "redis-cli ping" '[Ee]rror|ERR' redis-cli -h "$HOST" -p "$PORT" PING
    check "redis-cli --bigkeys" '[Ee]rror|ERR' redis-cli -h "$HOST" -p "$PORT" --bigkeys
}

case ${1:-} in
memccapable) memccapable_suite ;;
memcslap) memcslap_suite ;;
redis-benchmark) redis_benchmark_suite ;;
*)
    echo "usage: tools.sh memccapable|memcslap|redis-benchmark" >&2
    exit 2
    ;;
esac
echo "$PASSED passed, $FAILED failed"
[ "$FAILED" -eq 0 ] && [ "$PASSED" -gt 0 ]

# Sourced by ./test: installs what the tests need, with the ordinary clients of the registries, and says what.
#
# Each function `need_NAME` makes one thing available and returns non-zero when it cannot; nothing here starts a service or
# writes outside the package database and .cache/. What exists is preferred: nothing is upgraded.

CACHE=$ROOT/.cache
MEMCACHED_VERSION=1.6.45
MEMCACHED_TREE=$CACHE/memcached/tree
VENV=$CACHE/venv
PYTHON_CLIENTS='pymemcache==4.0.0 redis==8.1.0 pylibmc==1.6.3 prometheus-client==0.26.0 PyYAML==6.0.3'
JAVA_CLASSES=$CACHE/java

say() { printf '%s\n' "$*"; }

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        sudo "$@"
    else
        say "needs root, and sudo does not work without a password: $*" >&2
        return 1
    fi
}

# packages NAME...: installs the Debian packages that are missing.
packages() {
    local missing=() name
    for name in "$@"; do
        dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null | grep -qx installed || missing+=("$name")
    done
    [ ${#missing[@]} -eq 0 ] && return 0
    say "  installing Debian packages: ${missing[*]}"
    if [ -z "${APT_UPDATED:-}" ]; then
        as_root apt-get update -q >>"$CACHE/install.log" 2>&1 || return 1
        APT_UPDATED=1
    fi
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" \
        >>"$CACHE/install.log" 2>&1 || { tail -n 5 "$CACHE/install.log"; return 1; }
}

# unless_present PROGRAM PACKAGE...: a program may come from elsewhere than from Debian.
unless_present() {
    command -v "$1" >/dev/null || packages "${@:2}"
}

need_rust() {
    cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1 && return 0
    say "  installing rustfmt and clippy with rustup"
    rustup component add rustfmt clippy >>"$CACHE/install.log" 2>&1
}

# The kernels for another kind of processor are compiled, though nothing here can run them.
need_aarch64() {
    rustup target list --installed 2>/dev/null | grep -qx aarch64-unknown-linux-gnu && return 0
    say "  installing Rust's library for aarch64 with rustup"
    rustup target add aarch64-unknown-linux-gnu >>"$CACHE/install.log" 2>&1
}

need_isal() { packages libisal2; }

# Debian's package only adds a service beside the program, which nothing here starts by itself.
need_etcd() { unless_present etcd etcd-server; }

need_openssl() { unless_present openssl openssl; }

need_python() { unless_present python3 python3; }

need_tools() { need_python && packages libmemcached-tools redis-tools; }

# Debian's redis-tools holds the server too; its package redis-server would only add a service that is started at once.
need_redis() {
    command -v redis-server >/dev/null && return 0
    packages redis-tools && mkdir -p "$CACHE/bin" && ln -sfn "$(command -v redis-check-rdb)" "$CACHE/bin/redis-server"
}

# The tree of memcached's own release: its t/ suite and a server to compare with. Debian's archive has it as a source package;
# only the upstream archive is fetched, and apt checks it against the signed index.
need_memcached() {
    local expected=$MEMCACHED_TREE/.built-$MEMCACHED_VERSION
    [ -e "$expected" ] && return 0
    packages perl gcc make libc6-dev libevent-dev xz-utils ca-certificates debian-archive-keyring || return 1
    local apt=$CACHE/memcached/apt version
    rm -rf "$CACHE/memcached" && mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" || return 1
    local suite
    for suite in sid forky trixie; do
        say "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $suite main"
    done >"$apt/sources.list"
    local options=(-o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
        -o "Dir::State::lists=$apt/lists" -o "Dir::Cache=$apt/cache" -o "APT::Sandbox::User=$(id -un)")
    say "  fetching the source of memcached $MEMCACHED_VERSION from Debian's archive"
    apt-get "${options[@]}" update -q >>"$CACHE/install.log" 2>&1 || return 1
    version=$(apt-cache "${options[@]}" showsrc memcached 2>/dev/null | sed -n 's/^Version: //p' | grep -m1 "^$MEMCACHED_VERSION-")
    if [ -z "$version" ]; then
        say "  Debian's archive no longer has memcached $MEMCACHED_VERSION; it has:" \
            "$(apt-cache "${options[@]}" showsrc memcached 2>/dev/null | sed -n 's/^Version: //p' | tr '\n' ' ')"
        return 1
    fi
    (
        cd "$CACHE/memcached" &&
            apt-get "${options[@]}" source --download-only --tar-only "memcached=$version" &&
            tar xf "memcached_$MEMCACHED_VERSION.orig.tar.xz" && mv "memcached-$MEMCACHED_VERSION" tree &&
            cd tree && ./configure --enable-silent-rules && make -j2 memcached memcached-debug timedrun &&
            touch "$expected"
    ) >>"$CACHE/install.log" 2>&1 || { tail -n 5 "$CACHE/install.log"; return 1; }
    rm -rf "$apt/lists"
}

need_reference() { need_python && need_redis && need_memcached; }

need_venv() {
    local mark
    mark=$VENV/.has-$(say "$PYTHON_CLIENTS" | cksum | cut -d' ' -f1)
    [ -e "$mark" ] && return 0
    need_python || return 1
    python3 -c 'import ensurepip, venv' 2>/dev/null || packages python3-venv || return 1
    python3 -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' ||
        packages python3-dev || return 1
    packages gcc libc6-dev libmemcached-dev zlib1g-dev || return 1
    say "  installing from PyPI into .cache/venv: $PYTHON_CLIENTS"
    # pylibmc is built against Debian's libmemcached: its wheel would bring another one.
    # shellcheck disable=SC2086 # a list of words
    { python3 -m venv --clear "$VENV" && "$VENV/bin/pip" install -q --no-binary pylibmc $PYTHON_CLIENTS && touch "$mark"; } \
        >>"$CACHE/install.log" 2>&1 || { tail -n 5 "$CACHE/install.log"; return 1; }
}

# is_built PROGRAM FOLDER: of what lies there now, versions of modules, too.
is_built() { [ -x "$1" ] && [ -z "$(find "$2" -type f -newer "$1")" ]; }

need_go() {
    unless_present go golang-go || return 1
    is_built "$CACHE/go/suite" "$ROOT/tests/clients/go" && return 0
    say "  building the Go suite with gomemcache from the Go module proxy"
    (cd "$ROOT/tests/clients/go" && go build -o "$CACHE/go/suite" .) >>"$CACHE/install.log" 2>&1
}

need_porcupine() {
    unless_present go golang-go || return 1
    is_built "$CACHE/porcupine/judge" "$ROOT/tests/clients/porcupine" && return 0
    say "  building a judge of histories with porcupine from the Go module proxy"
    (cd "$ROOT/tests/clients/porcupine" && go build -o "$CACHE/porcupine/judge" .) >>"$CACHE/install.log" 2>&1
}

need_iproute() { unless_present ip iproute2; }

need_node() {
    unless_present node nodejs && unless_present npm npm || return 1
    cmp -s "$ROOT/tests/clients/node/package-lock.json" "$CACHE/node/package-lock.json" && [ -e "$CACHE/node/.done" ] && return 0
    say "  installing from npm into .cache/node: memcached, ioredis"
    mkdir -p "$CACHE/node" && cp "$ROOT"/tests/clients/node/package*.json "$CACHE/node/" &&
        (cd "$CACHE/node" && npm ci --no-audit --no-fund && touch .done) >>"$CACHE/install.log" 2>&1
}

need_java() {
    unless_present javac default-jdk-headless && unless_present mvn maven || return 1
    local newest
    newest=$(find "$ROOT/tests/clients/java" -type f -newer "$JAVA_CLASSES/clients.jar" 2>/dev/null | head -n 1)
    [ -e "$JAVA_CLASSES/clients.jar" ] && [ -z "$newest" ] && return 0
    say "  building the Java suites with spymemcached and jedis from Maven Central"
    (cd "$ROOT/tests/clients/java" && mvn -q -B -ntp -Dsuite.build="$JAVA_CLASSES" package) >>"$CACHE/install.log" 2>&1
}

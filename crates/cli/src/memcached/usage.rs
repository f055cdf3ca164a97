//! What `-h`, `-V` and `-i` print. Suites look for words in the help to learn what a server can do: a feature's word
//! is here only if the feature is.

/// The version of memcached whose text and meta protocols are spoken.
pub const VERSION: &str = "memcached 1.6.45\n";

pub const HELP: &str = "\
memcached 1.6.45
-p, --port=<num>          TCP port to listen on (default: 11211; 0: off, -1: any free port)
-U, --udp-port=<num>      accepted; only TCP is served (default: 0, off)
-s, --unix-socket=<file>  UNIX socket to listen on (disables network support)
-a, --unix-mask=<mask>    access mask for UNIX socket, in octal (default: 700)
-A, --enable-shutdown     enable ascii \"shutdown\" command
-l, --listen=<addr>       interface to listen on (default: INADDR_ANY)
                          can specify multiple comma separated listeners: ip:port,ip:port
-d, --daemon              run as a daemon
-r, --enable-coredumps    accepted; a daemon then stays in its directory
-u, --user=<user>         assume identity of <username> (only when run as root)
-m, --memory-limit=<num>  item memory in megabytes (default: 64)
-M, --disable-evictions   return error on memory exhausted instead of evicting
-c, --conn-limit=<num>    max simultaneous connections (default: 1024)
-k, --lock-memory         accepted; has no meaning for this server
-v, --verbose             verbose (print errors/warnings while in event loop)
-vv                       very verbose (also print client commands/responses)
-vvv                      extremely verbose (internal state transitions)
-h, --help                print this help and exit
-i, --license             print license and exit
-V, --version             print version and exit
-P, --pidfile=<file>      save PID in <file>
-f, --slab-growth-factor=<num> accepted; there are no slab classes
-n, --slab-min-size=<bytes> accepted; there are no slab classes
-L, --enable-largepages   accepted; has no meaning for this server
-D <char>                 Use <char> as the delimiter between key prefixes and IDs.
                          This is used for per-prefix stats reporting (default: \":\")
-t, --threads=<num>       number of threads that serve clients, at most 4 do (default: 1,
                          reported as 4)
-R, --max-reqs-per-event  accepted; connections are served in turns as they are
-C, --disable-cas         disable use of CAS
-b, --listen-backlog=<num> set the backlog queue limit (default: 1024)
-B, --protocol=<name>     protocol - one of ascii or auto (default: auto-negotiate)
-I, --max-item-size=<num> adjusts max item size
                          (default: 1m, min: 1k, max: 1024m)
-F, --disable-flush-all   disable flush_all command
-X, --disable-dumping     accepted; has no meaning for this server
-W  --disable-watch       accepted; there is no watch command
-Y, --auth-file=<file>    enable ASCII protocol authentication. format:
                          user:pass\\nuser2:pass2\\n
-N, --napi-ids=<num>      accepted; has no meaning for this server
-o, --extended            comma separated list of extended options
   - idle_timeout:        timeout for idle connections in seconds. (default: 0, no timeout)
   - those that tune memcached's slab allocator, hash table, LRU and logger are accepted and have no meaning here

This is ShortTail's drop-in: it keeps every item erasure coded over nodes, here inside one process. The environment
variables SHORTTAIL_MEMCACHED_CODE (default: rs:4+2) and SHORTTAIL_MEMCACHED_NODES (default: 8) choose how.
";

pub const LICENSE: &str = "\
memcached 1.6.45

This is not memcached but ShortTail's drop-in for it, under the Apache License, Version 2.0:
https://www.apache.org/licenses/LICENSE-2.0
";

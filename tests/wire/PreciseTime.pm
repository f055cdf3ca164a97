# Perl's time() is time(2), which the kernel moves at its ticks only: just after a second has begun it still tells the one
# before. memcached's own files set ends of life by it that are up to a second away, and a server that reads the clock itself
# would find them past. With `perl -MPreciseTime` a file's time() is the clock's.
package PreciseTime;

use strict;
use warnings;
use Time::HiRes ();

BEGIN {
    no warnings 'once';
    *CORE::GLOBAL::time = sub () { int(Time::HiRes::time()) };
}

1;

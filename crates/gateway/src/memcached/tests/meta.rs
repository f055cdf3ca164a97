//! The meta protocol: flags, their order, stale objects and the right to recache.

use super::*;

#[test]
fn a_meta_get_returns_what_is_asked_in_its_order() {
    check(
        "> mg a v
         < EN
         > mg a v Oxyz k
         < EN Oxyz ka
         > mg a q
         > ms a 3 F5 T100 E77
         > one
         < HD
         > mg a
         < HD
         > mg a s v t f c k Oopq
         < VA 3 s3 t100 f5 c77 ka Oopq
         < one
         > mg a f s q
         < HD f5 s3
         > mg a v C77
         < HD
         > mg a v C78
         < VA 3
         < one
         > mn
         < MN",
    );
}

#[test]
fn fetched_and_idle_are_those_before_the_read() {
    check(
        "> set a 0 0 1
         > 1
         < STORED
         ~ 5
         > mg a h l u
         < HD h0 l5
         > touch a 20
         < TOUCHED
         ~ 5
         > mg a R30 h l u
         < HD h1 l5 W
         > set a 0 20 1
         > 1
         < STORED
         ~ 5
         > mg a R30 h l
         < HD h0 l5 W
         > set a 0 0 1
         > 1
         < STORED
         ~ 5
         > mg a h l
         < HD h0 l5
         > mg a h l
         < HD h1 l0",
    );
}

#[test]
fn a_meta_get_touches_and_vivifies() {
    check(
        "> mg a s c v t N30 E9
         < VA 0 s0 c9 t-1 W
         < 
         > mg a s c v t N30
         < VA 0 s0 c9 t30 Z
         < 
         ~ 29
         > mg a t T100
         < HD t1 Z
         > mg a T100 t
         < HD t100 Z
         ~ 99
         > mg a t
         < HD t1 Z
         ~ 1
         > mg a t
         < EN
         > mg a T0 q
         > mg b N0 t
         < HD t-1 W",
    );
}

#[test]
fn recaching_is_won_once() {
    check(
        "> ms a 1 T20
         > 1
         < HD
         > mg a R10 v
         < VA 1
         < 1
         > mg a R30 v
         < VA 1 W
         < 1
         > mg a R30 v
         < VA 1 Z
         < 1
         > mg a v
         < VA 1 Z
         < 1
         > ms b 1
         > 1
         < HD
         > mg b R30
         < HD",
    );
}

#[test]
fn an_invalidated_object_is_stale_until_it_is_stored_again() {
    check(
        "> ms a 1 E100
         > 1
         < HD
         > md a I T30 E200
         < HD
         > mg a v c t
         < VA 1 c200 t30 X W
         < 1
         > mg a v
         < VA 1 Z X
         < 1
         > ms a 1 C150 I E300
         > 2
         < HD
         > mg a v c
         < VA 1 c300 Z X
         < 2
         > ms a 1 C301 I
         > 3
         < EX
         > ms a 1 C300 E400
         > 3
         < HD
         > mg a v c
         < VA 1 c400
         < 3",
    );
}

#[test]
fn a_stale_object_is_won_by_one_of_two_pipelined_reads() {
    let mut client = open();
    client.says("ms a 1\r\n1\r\nmd a I\r\n", "HD\r\nHD\r\n");
    client.says("mg a v\r\nmg a v\r\n", "VA 1 X W\r\n1\r\nVA 1 Z X\r\n1\r\n");
}

#[test]
fn meta_set_modes() {
    check(
        "> ms a 1 ME
         > 1
         < HD
         > ms a 1 ME k Oz
         > 2
         < NS ka Oz
         > ms a 1 MA s
         > 2
         < HD s2
         > ms a 1 MP s c
         > 0
         < HD s3 c4
         > ms b 1 MR
         > 1
         < NS
         > ms b 1 MA
         > 1
         < NS
         > ms b 1 MA N60
         > 1
         < HD
         > mg b t v
         < VA 1 t60
         < 1
         > ms c 1 MP N0 q
         > 1
         > ms a 1 MR q
         > 9
         > ms a 1 C1 c
         > 9
         < EX c0
         > ms none 1 C1
         > 9
         < NF
         > mg a v
         < VA 1
         < 9
         > ms a 2 MS E50
         > 77
         < HD
         > ms a 1 MA C51
         > 8
         < EX
         > ms a 1 MA C50
         > 8
         < HD
         > mg a v
         < VA 3
         < 778",
    );
}

#[test]
fn meta_delete() {
    check(
        "> md a
         < NF
         > md a q k
         < NF ka
         > ms a 1 E5 F9
         > 1
         < HD
         > md a C6 Ox
         < EX Ox
         > md a C5 q
         > mg a
         < EN
         > ms a 3 E5 F9 T50
         > 123
         < HD
         > md a x
         < HD
         > mg a v f t c s
         < VA 0 f0 t-1 c5 s0
         < 
         > md a x I T10 E8 F3
         < HD
         > mg a f t c
         < HD f3 t10 c8 X W",
    );
}

#[test]
fn meta_arithmetic() {
    check(
        "> ma n
         < NF
         > ma n k Oq q
         < NF kn Oq
         > ma n t N30 J13 v
         < VA 2 t-1
         < 13
         > ma n v t
         < VA 2 t30
         < 14
         > ma n D10 v MD
         < VA 1
         < 4
         > ma n D10 v M-
         < VA 1
         < 0
         > ma n q
         > ma n T90 t v E7 c
         < VA 1 t90 c7
         < 2
         > ma n C8
         < EX
         > ma n C7 v
         < VA 1
         < 3
         > ms x 1
         > x
         < HD
         > ma x q
         < CLIENT_ERROR cannot increment or decrement non-numeric value
         > ma n MX
         < CLIENT_ERROR invalid mode for ma M token
         > ma n N30 q
         > ms zero 1 E0 c
         > 1
         < HD c14
         > ma fresh N0 E5 c v
         < VA 1 c5
         < 0",
    );
}

#[test]
fn binary_keys_are_echoed_in_base64() {
    check(
        "> ms 44OG44K544OI 2 b k
         > po
         < HD k44OG44K544OI b
         > mg 44OG44K544OI v
         < EN
         > mg 44OG44K544OI b v k
         < VA 2 k44OG44K544OI b
         < po
         > mg 44OG44K544OI b k
         < HD k44OG44K544OI b
         > mg YQ== b N10 k
         < HD ka W
         > mg a k h
         < HD ka h1 Z
         > mg a k h
         < HD ka h1 Z
         > ma AA== b N0 k
         < HD kAA== b
         > md AA== b k
         < HD kAA== b
         > mg ! b
         < CLIENT_ERROR error decoding key
         > mg YWJj b v N10
         < VA 0 W
         < 
         > mg abc k
         < HD kabc Z",
    );
}

#[test]
fn a_number_changed_in_place_was_read_if_it_was_before() {
    check(
        "> set n 0 0 2
         > 10
         < STORED
         > get n
         < VALUE n 0 2
         < 10
         < END
         > decr n 1
         < 9
         > mg n h v
         < VA 2 h1
         < 9 
         > incr n 991
         < 1000
         > mg n h
         < HD h0",
    );
}

#[test]
fn debug_gets_show_metadata() {
    let mut client = open();
    client.says("me a\r\n", "EN\r\n");
    client.says("ms YWJj 2 b T10 E4\r\nxx\r\n", "HD\r\n");
    client.says("me YWJj b\r\n", "EN\r\n");
    client.says("me YWJj b b\r\n", "ME YWJj exp=10 la=0 cas=4 fetch=no cls=1 size=64\r\n");
    client.says("me abc\r\n", "ME YWJj exp=10 la=0 cas=4 fetch=no cls=1 size=64\r\n");
    client.says("me\r\n", "CLIENT_ERROR bad command line format\r\n");
}

#[test]
fn refused_meta_sets_skip_their_value() {
    check(
        "> ms a 3 MZ
         > abc
         < CLIENT_ERROR invalid mode for ms M token
         > ms a 3 v v
         > abc
         < CLIENT_ERROR duplicate flag
         > ms a 3 q
         > abcd
         < CLIENT_ERROR bad data chunk
         < CLIENT_ERROR bad command line format
         > ms a x
         < CLIENT_ERROR bad command line format
         > mn
         < MN",
    );
}

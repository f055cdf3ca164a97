//! Request lines: what they ask, how wrong ones are refused, and that no bytes upset the parser.

use proptest::prelude::*;

use super::limits::{DECODED_KEY_BYTES_MAX, KEY_BYTES_MAX};
use super::*;

fn refusal(line: &[u8]) -> Refusal {
    parse_line(line).expect_err("the line is refused")
}

fn refused_with(line: &[u8]) -> &'static str {
    refusal(line).line
}

fn flags_of(line: &[u8]) -> MetaFlags {
    match parse_line(line) {
        Ok(Request::MetaGet { flags, .. } | Request::MetaSet { flags, .. } | Request::MetaArithmetic { flags, .. }) => {
            flags
        }
        other => panic!("no meta command: {other:?}"),
    }
}

#[test]
fn a_set_names_everything_about_its_value() {
    let Ok(Request::Store(line)) = parse_line(b"set  k 5 -1 10 noreply\r\n") else { panic!("a set") };
    assert_eq!((line.key, line.flags, line.exptime), (&b"k"[..], 5, -1));
    assert_eq!((line.value_bytes, line.compare, line.noreply), (10, None, true));
    let Ok(Request::Store(line)) = parse_line(b"cas k 0 0 1 77\n") else { panic!("a cas") };
    assert_eq!(line.compare, Some(77));
}

#[test]
fn a_bad_length_skips_nothing_and_other_faults_skip_the_value() {
    for line in [&b"set k 0 0\r\n"[..], b"set k 0 0 -1\r\n", b"set k 0 0 1x\r\n", b"set k 0 0 2147483646\r\n"] {
        let bad = Refusal { line: Refusal::BAD_FORMAT, quiet: false, skip_bytes: 0, close: false };
        assert_eq!(refusal(line), bad, "{}", line.escape_ascii());
    }
    for line in [&b"set k x 0 3\r\n"[..], b"set k 0 0x1 3\r\n", b"cas k 0 0 3\r\n", b"cas k 0 0 3 -1\r\n"] {
        assert_eq!(refusal(line).skip_bytes, 5, "{}", line.escape_ascii());
    }
    assert!(refusal(b"set k x 0 3 noreply\r\n").quiet);
    let long_key = [b"set ", &[b'k'; KEY_BYTES_MAX + 1][..], b" 0 0 3\r\n"].concat();
    assert_eq!(refusal(&long_key).skip_bytes, 5);
}

#[test]
fn short_lines_and_missing_arguments_are_bad_format() {
    for line in [&b"\r\n"[..], b"a\r\n", b" \n", b"mn\n", b"get\r\n", b"get  \r\n", b"gat 1\r\n", b"delete\r\n"] {
        assert_eq!(refused_with(line), Refusal::BAD_FORMAT, "{}", line.escape_ascii());
    }
    for line in [&b"incr k\r\n"[..], b"touch k\r\n", b"mg\r\n", b"ms k\r\n", b"ms k x\r\n", b"ms k -1\r\n", b"me\r\n"] {
        assert_eq!(refused_with(line), Refusal::BAD_FORMAT, "{}", line.escape_ascii());
    }
    assert_eq!(refused_with(b"flush\r\n"), "ERROR");
    assert_eq!(refused_with(b"    \r\n"), "ERROR");
    assert!(refusal(b"GET / HTTP/1.0\r\n").close);
    assert!(refusal(b"nonsense noreply\r\n").quiet);
}

#[test]
fn keys_are_limited_wherever_they_stand() {
    let (fits, long) = ([b'k'; KEY_BYTES_MAX], [b'k'; KEY_BYTES_MAX + 1]);
    for (before, after, wanted) in [
        ("get ", "", Refusal::LONG_KEY_OF_GET),
        ("gat 0 ", "", Refusal::LONG_KEY_OF_GET),
        ("delete ", "", Refusal::BAD_FORMAT),
        ("incr ", " 1", Refusal::BAD_FORMAT),
        ("mg ", " v", Refusal::BAD_FORMAT),
    ] {
        let line = |key: &[u8]| [before.as_bytes(), key, after.as_bytes(), b"\r\n"].concat();
        assert!(parse_line(&line(&fits)).is_ok(), "{before}");
        assert_eq!(refused_with(&line(&long)), wanted, "{before}");
    }
}

#[test]
fn keys_before_one_that_is_too_long_are_asked_for() {
    let (fits, long) = ("k".repeat(KEY_BYTES_MAX), "k".repeat(KEY_BYTES_MAX + 1));
    let long_key_at = |keys: &str| match parse_line(format!("gets {keys}\r\n").as_bytes()) {
        Ok(Request::Get { keys: parsed, long_key_at, .. }) => (parsed == keys.as_bytes(), long_key_at),
        other => panic!("{other:?}"),
    };
    assert_eq!(long_key_at(&format!("a {fits} b")), (true, None));
    assert_eq!(long_key_at(&format!("a  {long} b")), (true, Some(3)));
    assert_eq!(long_key_at(&format!("a b {long} {long}")), (true, Some(4)));
}

#[test]
fn numbers_are_read_as_memcached_reads_them() {
    assert_eq!(exact_i32(b"-"), Some(0));
    assert_eq!(exact_i32(b"-2147483648"), Some(i32::MIN));
    assert_eq!(exact_i32(b"2147483648"), None);
    assert_eq!(exact_i32(b"+1"), None);
    assert_eq!(exact_u64(b"18446744073709551615"), Some(u64::MAX));
    assert_eq!(exact_u64(b"18446744073709551616"), None);
    assert_eq!(exact_u64(b"00000000000000000000001"), None, "longer than any number");
    assert_eq!(number::lax_u32(b"+7"), Some(7));
    assert_eq!(number::lax_u32(b"4294967297"), Some(1), "cut to 32 bits");
    assert_eq!(number::lax_u32(b"-1"), None);
    assert_eq!(number::lax_i32(b"-1"), Some(-1));
    assert_eq!(number::lax_i32(b"9223372036854775808"), None);
    assert_eq!(leading_u64(b"12   "), Some(12));
    assert_eq!(leading_u64(b"12 apples"), Some(12));
    assert_eq!(leading_u64(b"12apples"), None);
    assert_eq!(leading_u64(b""), None);
    assert_eq!(leading_u64(b"-1"), None);
    assert_eq!(leading_u64(b"18446744073709551616"), None);
}

#[test]
fn meta_flags_keep_their_order_and_arguments() {
    let flags = flags_of(b"mg k v Oabc t N30 R-1 T0 C7 E9 q\r\n");
    assert_eq!(flags.in_order(), b"vOtNRTCEq");
    assert_eq!(flags.opaque(), b"abc");
    assert_eq!((flags.vivify_exptime(), flags.recache_exptime(), flags.ttl_exptime()), (Some(30), Some(-1), Some(0)));
    assert_eq!((flags.compare(), flags.new_cas()), (Some(7), Some(9)));
    let flags = flags_of(b"ma k J5 D6 MD\r\n");
    assert_eq!((flags.initial(), flags.delta(), flags.mode()), (5, 6, b'D'));
    assert_eq!(flags_of(b"ma k\r\n").delta(), 1);
    assert_eq!(flags_of(b"ms k 2 F4294967295\r\n").client_flags(), u32::MAX);
}

#[test]
fn wrong_meta_flags_have_their_own_lines() {
    let expected = [
        (&b"mg k v v\r\n"[..], "CLIENT_ERROR duplicate flag"),
        (b"mg k !\r\n", Refusal::BAD_FORMAT),
        (b"mg k 1\r\n", "CLIENT_ERROR invalid flag"),
        (b"mg k N\r\n", "CLIENT_ERROR bad token in command line format"),
        (b"mg k Cx\r\n", "CLIENT_ERROR bad token in command line format"),
        (b"mg abc b\r\n", "CLIENT_ERROR error decoding key"),
        (b"md k O12345678901234567890123456789012\r\n", Refusal::LONG_OPAQUE),
        (b"ms k 2 O12345678901234567890123456789012\r\n", Refusal::LONG_OPAQUE),
        (b"ma k O12345678901234567890123456789012\r\n", Refusal::LONG_OPAQUE),
        (b"mg k a b c d e f g h i j k l m n o p q r s\r\n", "CLIENT_ERROR options flags are too long"),
        (b"ma k Dx\r\n", "CLIENT_ERROR invalid or duplicate flag"),
        (b"ma k MZ\r\n", "CLIENT_ERROR invalid mode for ma M token"),
        (b"ms k 2 MZ\r\n", "CLIENT_ERROR invalid mode for ms M token"),
        (b"ms k 2 M\r\n", "CLIENT_ERROR invalid mode for ms M token"),
        (b"ms k 2 Fx\r\n", Refusal::BAD_FORMAT),
        (b"ms k 2 Tx Fx\r\n", "CLIENT_ERROR bad token in command line format"),
        (b"ms k 2 MZ O12345678901234567890123456789012\r\n", "CLIENT_ERROR invalid mode for ms M token"),
        (b"ma k Jx\r\n", "CLIENT_ERROR invalid or duplicate flag"),
    ];
    for (line, answer) in expected {
        assert_eq!(refused_with(line), answer, "{}", line.escape_ascii());
    }
    assert_eq!(refusal(b"ms k 2 Fx\r\n").skip_bytes, 4);
    let many = b"mg k v f t s c k q u h l I x P L O1 N1 T1 R1 C1\r\n";
    assert_eq!(refused_with(many), "CLIENT_ERROR options flags are too long");
}

#[test]
fn binary_keys_are_decoded() {
    let Ok(Request::MetaGet { key, .. }) = parse_line(b"mg AAEg b\r\n") else { panic!("a metaget") };
    assert_eq!(key.bytes(), b"\0\x01 ");
    assert_eq!(refused_with(b"me v -\r\n"), "CLIENT_ERROR bad command line format");
    assert_eq!(refused_with(b"me v x ~\r\n"), "CLIENT_ERROR bad command line format");
    let Ok(Request::MetaDebug { key }) = parse_line(b"me AAEg b x\r\n") else { panic!("a debug get") };
    assert_eq!(key.bytes(), b"\0\x01 ");
}

proptest! {
    #[test]
    fn base64_returns_what_was_encoded(bytes in proptest::collection::vec(any::<u8>(), 1..=DECODED_KEY_BYTES_MAX)) {
        let mut text = Vec::new();
        base64::encode(&bytes, &mut text);
        let mut decoded = [0; DECODED_KEY_BYTES_MAX];
        let length = base64::decode(&text, &mut decoded);
        prop_assert_eq!(length.map(|length| &decoded[..length]), Some(&bytes[..]));
    }

    #[test]
    fn any_line_is_understood_or_refused(mut line in proptest::collection::vec(any::<u8>(), 0..80)) {
        line.push(b'\n');
        let _ = parse_line(&line);
    }

    #[test]
    fn flags_written_read_back_the_same(
        ttl in any::<i32>(), compare in any::<u64>(), opaque in "[a-z0-9]{0,31}", client in any::<u32>(), mode in "[EAPRS]",
    ) {
        let line = format!("ms k 1 T{ttl} v C{compare} O{opaque} F{client} M{mode} k\r\n");
        let flags = flags_of(line.as_bytes());
        let mut again = b"ms k 1".to_vec();
        flags.write(&mut again);
        again.extend_from_slice(b"\r\n");
        prop_assert_eq!(again, line.into_bytes());
    }
}

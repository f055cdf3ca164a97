//! Sums of structs of counters.

/// Two structs as one: each field of the list is what `$add` makes of both, the others are as the rest says. Where one
/// is forgotten nothing compiles.
#[macro_export]
macro_rules! sum_of {
    ($one:ident, $other:ident: $type:ident { $add:path: [$($field:ident),* $(,)?], $($rest:tt)* }) => {
        $type { $($field: $add($one.$field, $other.$field),)* $($rest)* }
    };
}

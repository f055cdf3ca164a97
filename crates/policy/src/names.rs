//! Values that are written as one word: in flags, files, messages and the status alike.

use std::fmt;

/// What a type's words mean.
pub(crate) type Words<T, const N: usize> = [(&'static str, T); N];

/// # Errors
/// Names the words that there are.
pub(crate) fn parse<T: Copy>(words: &[(&'static str, T)], text: &str) -> Result<T, String> {
    let found = words.iter().find(|(word, _)| *word == text).map(|&(_, value)| value);
    found.ok_or_else(|| {
        let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        format!("{text:?} is none of {}", words.join(", "))
    })
}

pub(crate) fn show<T: PartialEq>(words: &[(&str, T)], value: &T, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.pad(words.iter().find(|(_, other)| other == value).map(|(word, _)| *word).expect("every value has a word"))
}

/// Reading, writing and serialising of a type by its table of words.
macro_rules! by_word {
    ($type:ty, $words:expr) => {
        impl std::str::FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                crate::names::parse(&$words, text)
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                crate::names::show(&$words, self, f)
            }
        }

        crate::names::as_text!($type);
    };
}

/// Serialised as it is written.
macro_rules! as_text {
    ($type:ty) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

pub(crate) use {as_text, by_word};

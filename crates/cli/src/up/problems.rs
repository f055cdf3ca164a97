//! The problems that the coordinator tells of, in lines for people: each once when it is there, and that there is none
//! any more.
//!
//! What is there at one look only is not told: a gateway that is started again serves within a second.
//!
//! Must not know: where lines go, or what is a problem.

use std::collections::BTreeSet;

/// What was told so far. Problems are told apart by their words: numbers in them change while they last.
#[derive(Default)]
pub struct Problems {
    told: BTreeSet<String>,
    seen: BTreeSet<String>,
    had_none: bool,
}

impl Problems {
    /// These were told in other words.
    pub fn knowing(problems: &[String]) -> Self {
        Problems { told: problems.iter().map(|problem| words(problem)).collect(), ..Problems::default() }
    }

    /// Lines about what is there at two looks in a row.
    pub fn note(&mut self, problems: &[String]) -> Vec<String> {
        let before = std::mem::replace(&mut self.seen, problems.iter().map(|problem| words(problem)).collect());
        let have_none = problems.is_empty();
        let had_none = std::mem::replace(&mut self.had_none, have_none);
        if have_none && had_none && !self.told.is_empty() {
            self.told.clear();
            return vec!["there is no problem any more".to_owned()];
        }
        let news = problems.iter().filter(|problem| {
            let words = words(problem);
            before.contains(&words) && self.told.insert(words)
        });
        news.map(|problem| format!("problem: {problem}")).collect()
    }
}

fn words(problem: &str) -> String {
    problem.split(|letter: char| !letter.is_alphabetic()).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(problems: &[&str]) -> Vec<String> {
        problems.iter().map(|&problem| problem.to_owned()).collect()
    }

    #[test]
    fn a_problem_is_told_once_and_its_end() {
        let mut problems = Problems::default();
        let mut note = |now: &[&str]| problems.note(&some(now));
        assert!(note(&[]).is_empty() && note(&[]).is_empty());
        assert!(note(&["nodes 1, 2 are away"]).is_empty(), "it may be over by the next look");
        assert_eq!(note(&["nodes 1, 2 are away", "full"]), ["problem: nodes 1, 2 are away"]);
        assert_eq!(note(&["nodes 1, 2, 7 are away", "full"]), ["problem: full"], "another number is the same problem");
        assert!(note(&["full"]).is_empty() && note(&[]).is_empty() && note(&["full"]).is_empty());
        assert!(note(&[]).is_empty());
        assert_eq!(note(&[]), ["there is no problem any more"]);
        assert!(note(&[]).is_empty());
        assert!(note(&["full"]).is_empty());
        assert_eq!(note(&["full"]), ["problem: full"]);
    }

    #[test]
    fn what_was_told_already_is_no_news() {
        let mut problems = Problems::knowing(&some(&["full"]));
        assert!(problems.note(&some(&["full"])).is_empty() && problems.note(&some(&["full"])).is_empty());
    }
}

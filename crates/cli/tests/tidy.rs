//! Style that a person would otherwise have to watch: arrows between crates point down, lower crates touch no socket,
//! clock or thread, files stay small and say what they are for, nothing is left to do.
//!
//! Must not know: what any crate does. Reads the workspace's files only.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The crates from the bottom up: one may use only those of lower layers.
const LAYERS: &[&[&str]] = &[
    &["units"],
    &["chaos", "codes", "monitor", "placement", "policy"],
    &["wire"],
    // A node's chunks and their headers name what the node protocol carries.
    &["store"],
    &["node", "gateway", "coordinator"],
    &["server", "sim", "bench"],
    &["cli"],
];

/// The crates from which sockets, clocks, threads and chance are kept out: all below the server.
const PURE_LAYERS: usize = 5;
const IMPURE_CRATES: &[&str] =
    &["async-std", "crossbeam", "fastrand", "getrandom", "mio", "nix", "polling", "rand", "rayon", "socket2", "tokio"];
const IMPURE_WORDS: &[&str] = &[
    "Instant::now",
    "SystemTime",
    "TcpListener",
    "TcpStream",
    "UdpSocket",
    "UnixListener",
    "UnixStream",
    "mio::",
    "rand::",
    "std::thread",
    "thread::spawn",
    "thread_rng",
    "tokio::",
];

const LINES_MAX: usize = 800;
const COLUMNS_MAX: usize = 120;

/// Written in two parts so that this file does not hold what it looks for.
const UNFINISHED: &[(&str, &str)] = &[("todo", "!("), ("unimplemented", "!("), ("#[ign", "ore"), ("dbg", "!(")];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace is two levels up")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every `.rs` file below `directory`, in a fixed order.
fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut directories = vec![directory.to_path_buf()];
    while let Some(directory) = directories.pop() {
        let entries = fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        for path in entries.map(|entry| entry.expect("a readable directory").path()) {
            if path.is_dir() && path.file_name().is_some_and(|name| name != "target" && name != "corpus") {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// Every `.rs` file of the project, wherever it lives.
fn project_files() -> Vec<PathBuf> {
    let places = ["crates", "fuzz", "tests"].map(|name| root().join(name));
    places.iter().filter(|place| place.is_dir()).flat_map(|place| rust_files(place)).collect()
}

/// The folders below `crates/`, which are the crates' names.
fn crate_names() -> Vec<String> {
    let entries = fs::read_dir(root().join("crates")).expect("crates/ exists");
    let paths = entries.map(|entry| entry.expect("a readable directory").path());
    let mut names: Vec<String> = paths
        .filter(|path| path.join("Cargo.toml").is_file())
        .map(|path| path.file_name().expect("a folder has a name").to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// What a crate needs to be built; what only its tests need is its own affair.
fn dependencies(name: &str) -> Vec<String> {
    let manifest = read(&root().join("crates").join(name).join("Cargo.toml"));
    let mut wanted = false;
    let mut found = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            wanted = section.ends_with("dependencies") && !section.ends_with("dev-dependencies");
            // `[dependencies.name]` is a section of its own.
            if let Some((_, dependency)) = section.split_once("dependencies.").filter(|_| !section.contains("dev-")) {
                found.push(dependency.to_owned());
            }
        } else if wanted && !line.starts_with('#') {
            let end = line.find(['.', '=', ' ']).unwrap_or(line.len());
            if end > 0 {
                found.push(line[..end].to_owned());
            }
        }
    }
    found
}

fn layers() -> BTreeMap<&'static str, usize> {
    LAYERS.iter().enumerate().flat_map(|(layer, names)| names.iter().map(move |&name| (name, layer))).collect()
}

/// The code of a line, without what follows `//`.
fn code(line: &str) -> &str {
    line.split_once("//").map_or(line, |(code, _)| code)
}

/// True where `word` stands in `text` and is not the end of a longer name.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_'))
}

fn assert_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn arrows_between_crates_point_down() {
    let layers = layers();
    let mut complaints = Vec::new();
    for name in crate_names() {
        let Some(own) = layers.get(name.as_str()) else {
            complaints.push(format!("crates/{name} has no layer: give it one in {}", file!()));
            continue;
        };
        for dependency in dependencies(&name) {
            let Some(used) = dependency.strip_prefix("shorttail-") else { continue };
            match layers.get(used) {
                Some(layer) if layer < own => {}
                _ => complaints.push(format!("{name} must not use {used}")),
            }
        }
    }
    assert_none(&complaints);
}

#[test]
fn every_layer_has_its_crates() {
    let names = crate_names();
    let missing = LAYERS.iter().flat_map(|layer| layer.iter()).filter(|name| !names.iter().any(|known| known == *name));
    assert_none(&missing.map(|name| format!("crates/{name} is in a layer and does not exist")).collect::<Vec<_>>());
}

#[test]
fn dependencies_are_read() {
    let found = dependencies("gateway");
    assert!(found.iter().any(|name| name == "shorttail-units"), "the reader of manifests finds nothing: {found:?}");
    assert!(dependencies("server").iter().any(|name| name == "mio"), "the server is where mio is");
}

#[test]
fn lower_crates_touch_no_socket_clock_thread_or_chance() {
    let mut complaints = Vec::new();
    for name in LAYERS[..PURE_LAYERS].iter().flat_map(|layer| layer.iter()) {
        let used = dependencies(name).into_iter().filter(|used| IMPURE_CRATES.contains(&used.as_str()));
        complaints.extend(used.map(|used| format!("{name} must not use {used}")));
        for file in rust_files(&root().join("crates").join(name).join("src")) {
            for (number, line) in read(&file).lines().enumerate() {
                let words = IMPURE_WORDS.iter().filter(|word| has_word(code(line), word));
                complaints.extend(words.map(|word| format!("{}:{}: {word}", file.display(), number + 1)));
            }
        }
    }
    assert_none(&complaints);
}

#[test]
fn files_are_small_and_say_what_they_are_for() {
    let mut complaints = Vec::new();
    for file in project_files() {
        let text = read(&file);
        let lines = text.lines().count();
        if lines > LINES_MAX {
            complaints.push(format!("{}: {lines} lines, at most {LINES_MAX}: split it", file.display()));
        }
        // A fuzz target and a script may have an attribute or `#!` first.
        let first = text.lines().find(|line| !line.starts_with("#!") && !line.trim().is_empty());
        if !first.is_some_and(|line| line.starts_with("//!")) {
            complaints.push(format!("{}: does not open with `//!`", file.display()));
        }
    }
    assert_none(&complaints);
}

/// The formatter breaks code, not comments. Pictures may be wider.
#[test]
fn comments_are_as_narrow_as_code() {
    let mut complaints = Vec::new();
    for file in project_files() {
        let mut is_picture = false;
        for (number, line) in (1..).zip(read(&file).lines()) {
            let Some(comment) = line.trim_start().strip_prefix("//") else { continue };
            is_picture ^= comment.trim_start_matches(['/', '!']).trim_start().starts_with("```");
            if line.chars().count() > COLUMNS_MAX && !is_picture {
                complaints.push(format!("{}:{number}: more than {COLUMNS_MAX} columns", file.display()));
            }
        }
    }
    assert_none(&complaints);
}

#[test]
fn nothing_is_left_to_do() {
    let mut complaints = Vec::new();
    for file in project_files() {
        for (number, line) in read(&file).lines().enumerate() {
            let found =
                UNFINISHED.iter().map(|(head, tail)| format!("{head}{tail}")).filter(|word| code(line).contains(word));
            complaints.extend(found.map(|word| format!("{}:{}: {word}", file.display(), number + 1)));
        }
    }
    assert_none(&complaints);
}

const ENGINE: &str = "crates/gateway/src/engine";

/// What `text` has between backticks, each with what stands before it.
fn quoted(text: &str) -> Vec<(&str, &str)> {
    let parts: Vec<&str> = text.split('`').collect();
    parts.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
}

/// What a row of ARCHITECTURE's table of rules names in one cell: files below `place`, and functions with their files.
/// A file without a folder lies beside the one that was named before.
fn rule_files(place: &str, cell: &str) -> Vec<(PathBuf, Option<String>)> {
    let mut found: Vec<(PathBuf, Option<String>)> = Vec::new();
    let (mut file, mut is_list) = (root().join(place).join("-"), false);
    for (before, name) in quoted(cell) {
        is_list = before.ends_with('(') || is_list && !before.contains(')');
        if name.ends_with(".rs") {
            let folder = if name.contains('/') { root().join(place) } else { file.with_file_name("") };
            file = folder.join(name);
            found.push((file.clone(), None));
        } else if is_list {
            found.push((file.clone(), Some(name.to_owned())));
        }
    }
    found
}

#[test]
fn the_table_of_rules_names_what_exists() {
    let text = read(&root().join("docs/ARCHITECTURE.md"));
    let rows = text.lines().filter(|line| line.starts_with("| R"));
    let cells = rows.flat_map(|row| {
        let cells: Vec<&str> = row.split('|').collect();
        [rule_files(ENGINE, cells[2]), rule_files("crates", cells[3])].concat()
    });
    let named: Vec<(PathBuf, Option<String>)> = cells.collect();
    assert!(named.iter().filter(|(_, function)| function.is_some()).count() >= 20, "the table is not read: {named:?}");
    let missing = named.iter().filter(|(file, function)| {
        let has = |name: &String| has_word(&read(file), &format!("fn {name}("));
        !file.is_file() || function.as_ref().is_some_and(|name| !has(name))
    });
    assert_none(&missing.map(|(file, name)| format!("{}: no {name:?}", file.display())).collect::<Vec<_>>());
}

/// Functions and tests that are named where invariants are told, most of them to say what was tried.
#[test]
fn the_tables_of_invariants_name_what_exists() {
    let is_name = |name: &&str| {
        name.contains('_') && name.chars().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_')
    };
    let text = read(&root().join("docs/INVARIANTS.md"));
    let rows = text.lines().filter(|line| line.starts_with("| "));
    let named: BTreeSet<&str> = rows.flat_map(quoted).map(|(_, name)| name).filter(is_name).collect();
    assert!(named.len() > 300, "the tables are not read: {named:?}");
    let mut words = BTreeSet::new();
    for file in project_files() {
        let text = read(&file);
        words.extend(text.split(|it: char| !it.is_alphanumeric() && it != '_').map(str::to_owned));
    }
    assert_none(
        &named.iter().filter(|name| !words.contains(**name)).map(|name| format!("no {name}")).collect::<Vec<_>>(),
    );
}

/// The names that the table in the head of a file has in its first column.
fn listed(text: &str) -> BTreeSet<String> {
    let rows = text.lines().filter_map(|line| line.strip_prefix("//! | `")?.split_once("` | "));
    rows.map(|(name, _)| name.to_owned()).collect()
}

/// The modules that a file declares before it uses any.
fn declared(text: &str) -> BTreeSet<String> {
    let lines = text.lines().take_while(|line| !line.starts_with("use ")).filter_map(|line| line.strip_suffix(';'));
    lines.filter_map(|line| line.split_once("mod ")).map(|(_, module)| module.to_owned()).collect()
}

/// The modules whose files or folders lie beside a `mod.rs`.
fn beside(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.expect("a readable directory").path());
    let names = paths.map(|path| path.file_stem().expect("an entry has a name").to_string_lossy().into_owned());
    names.filter(|name| name != "mod").collect()
}

/// The head of the engine lists its groups, as ARCHITECTURE does, and the head of each group its modules.
#[test]
fn each_module_of_the_engine_is_in_its_group() {
    let (engine, told) = (root().join(ENGINE), read(&root().join("docs/ARCHITECTURE.md")));
    let groups = declared(&read(&engine.join("mod.rs")));
    let strange = groups.iter().filter(|group| !told.contains(&format!("\n| `{group}` | ")));
    assert_none(&strange.map(|group| format!("ARCHITECTURE does not name {group}")).collect::<Vec<_>>());
    for folder in groups.iter().map(|group| engine.join(group)).chain([engine.clone()]) {
        let text = read(&folder.join("mod.rs"));
        assert_eq!(listed(&text), declared(&text), "the head of {} and its `mod` lines", folder.display());
        assert_eq!(declared(&text), beside(&folder), "the `mod` lines and what is in {}", folder.display());
    }
}

/// Where one program has all tests of a crate from outside, a file that it does not name would be run by nobody.
#[test]
fn each_file_of_tests_is_in_a_program() {
    let mut complaints = Vec::new();
    let mut programs = 0;
    for name in crate_names() {
        let directory = root().join("crates").join(&name);
        let Ok(main) = fs::read_to_string(directory.join("tests/main.rs")) else { continue };
        programs += 1;
        let manifest = read(&directory.join("Cargo.toml"));
        let is_own = |module: &String| module == "main" || manifest.contains(&format!("name = \"{module}\"\n"));
        let files: BTreeSet<String> = beside(&directory.join("tests")).into_iter().filter(|it| !is_own(it)).collect();
        let missed = files.symmetric_difference(&declared(&main)).cloned().collect::<Vec<_>>();
        complaints.extend(missed.iter().map(|module| format!("crates/{name}/tests: {module}")));
    }
    assert!(programs >= 4, "{programs}");
    assert_none(&complaints);
}

/// Examples in documentation are compiled and run, or there are none.
#[test]
fn crates_whose_examples_are_not_run_have_none() {
    const OF_NO_CODE: [&str; 4] = ["```text", "```sh", "```toml", "```json"];
    let mut complaints = Vec::new();
    for name in crate_names().iter().filter(|name| *name != "cli") {
        let directory = root().join("crates").join(name);
        if !read(&directory.join("Cargo.toml")).contains("doctest = false") {
            continue;
        }
        for path in rust_files(&directory.join("src")) {
            let text = read(&path);
            let is_doc = |line: &&str| line.starts_with("//!") || line.starts_with("///");
            let fences = text.lines().map(str::trim).filter(is_doc).map(|line| line[3..].trim());
            let opening = fences.filter(|line| line.starts_with("```")).step_by(2);
            let examples = opening.filter(|line| !OF_NO_CODE.contains(line));
            complaints.extend(examples.map(|line| format!("{}: {line:?} is never run", path.display())));
        }
    }
    assert_none(&complaints);
}

/// `bench transitions` goes by what gateways log and shares no code with them.
#[test]
fn the_log_has_the_words_that_are_measured_by() {
    let [told, read_by] = ["crates/gateway/src/engine/sessions/absence.rs", "crates/bench/src/transitions/course.rs"]
        .map(|file| read(&root().join(file)));
    let words: Vec<&str> =
        read_by.lines().filter_map(|line| line.trim().strip_prefix("(Step::")?.split('"').nth(1)).collect();
    assert_eq!(words.len(), 4, "the words of course.rs: {words:?}");
    for words in words {
        assert!(told.contains(&format!("\"{}\"", words.trim_end())), "no owner logs {words:?}");
    }
}

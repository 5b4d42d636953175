//! The scenario files below one directory: `DIRECTORY/document/figure.toml`.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::read::ZlibDecoder;

use super::{Override, Scenario, ScenarioError};

/// The scenario files of this project: their paths below `scenarios`, and their lengths.
const EMBEDDED: &[(&str, usize)] = include!(concat!(env!("OUT_DIR"), "/embedded.rs"));
/// Their contents, concatenated.
const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/embedded.zlib"));

/// A directory of scenario files.
#[derive(Clone, Debug)]
pub struct Library {
    directory: PathBuf,
    /// The temporary directory with the embedded files. It is removed when the last copy is
    /// dropped.
    unpacked: Option<Arc<tempfile::TempDir>>,
}

impl Library {
    /// The files below a directory.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), unpacked: None }
    }

    /// The directory `scenarios` here, or in the nearest parent directory.
    pub fn find(from: &Path) -> Option<Self> {
        from.ancestors().map(|dir| dir.join("scenarios")).find(|dir| dir.is_dir()).map(Self::new)
    }

    /// The embedded files, in a temporary directory that is removed with the last copy of this
    /// value.
    ///
    /// # Errors
    /// Fails if there is no writable directory for temporary files.
    pub fn embedded() -> std::io::Result<Self> {
        let unpacked = tempfile::Builder::new().prefix("anabranch-scenarios-").tempdir()?;
        let mut texts = ZlibDecoder::new(PACKED);
        for (name, length) in EMBEDDED {
            let mut text = vec![0; *length];
            texts.read_exact(&mut text)?;
            let file = unpacked.path().join(name);
            if let Some(directory) = file.parent() {
                fs::create_dir_all(directory)?;
            }
            fs::write(file, text)?;
        }
        let directory = unpacked.path().to_owned();
        Ok(Self { directory, unpacked: Some(Arc::new(unpacked)) })
    }

    /// Whether the files are built into the program.
    pub fn is_embedded(&self) -> bool {
        self.unpacked.is_some()
    }

    /// Where the files are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The names of all scenarios, in order.
    ///
    /// # Errors
    /// Fails if a directory cannot be read.
    pub fn ids(&self) -> Result<Vec<String>, ScenarioError> {
        let mut ids = Vec::new();
        for document in self.entries(&self.directory)? {
            if !document.is_dir() {
                continue;
            }
            for file in self.entries(&document)? {
                if file.extension().is_some_and(|extension| extension == "toml")
                    && let (Some(document), Some(figure)) = (document.file_name(), file.file_stem())
                {
                    ids.push(format!("{}/{}", document.display(), figure.display()));
                }
            }
        }
        ids.sort_by_key(|id| natural(id));
        Ok(ids)
    }

    fn entries(&self, directory: &Path) -> Result<Vec<PathBuf>, ScenarioError> {
        let unreadable = |error: std::io::Error| ScenarioError::Unreadable {
            file: directory.display().to_string(),
            reason: error.to_string(),
        };
        fs::read_dir(directory)
            .map_err(unreadable)?
            .map(|entry| entry.map(|entry| entry.path()).map_err(unreadable))
            .collect()
    }

    /// The scenarios named by the arguments: each argument is a scenario or a whole document.
    ///
    /// # Errors
    /// Fails if an argument is neither.
    pub fn expand(&self, arguments: &[String]) -> Result<Vec<String>, ScenarioError> {
        // A file needs no directory of scenarios.
        let files = arguments.iter().all(|argument| argument.ends_with(".toml"));
        let ids = if files { Vec::new() } else { self.ids()? };
        let mut wanted: Vec<String> = Vec::new();
        for argument in arguments {
            let name = argument.trim_end_matches('/');
            let before = wanted.len();
            if name.ends_with(".toml") {
                wanted.push(self.id_of(name).unwrap_or_else(|| name.to_owned()));
                continue;
            }
            wanted.extend(
                ids.iter()
                    .filter(|id| {
                        *id == name
                            || id.strip_prefix(name).is_some_and(|rest| rest.starts_with('/'))
                    })
                    .cloned(),
            );
            if wanted.len() == before {
                return Err(ScenarioError::Argument(format!(
                    "there is no scenario and no document '{argument}': 'anabranch lab list' names them"
                )));
            }
        }
        let mut seen = std::collections::HashSet::new();
        wanted.retain(|id| seen.insert(id.clone()));
        Ok(wanted)
    }

    /// The name of a scenario in this directory, from its file; stored results use that name.
    fn id_of(&self, file: &str) -> Option<String> {
        let directory = self.directory.canonicalize().ok()?;
        let place = Path::new(file).canonicalize().ok()?;
        let place = place.strip_prefix(directory).ok()?.with_extension("");
        let parts: Vec<_> = place.iter().map(|part| part.to_str()).collect::<Option<_>>()?;
        (parts.len() == 2).then(|| parts.join("/"))
    }

    /// Reads a scenario by its name, or by the name of a file that ends in `.toml`.
    ///
    /// # Errors
    /// Returns the first error in the file.
    pub fn load(&self, id: &str, overrides: &[Override]) -> Result<Scenario, ScenarioError> {
        let file = self.file(id);
        if id.ends_with(".toml") {
            let name = file.with_extension("");
            let name = name.file_name().map_or_else(String::new, |n| n.display().to_string());
            return Scenario::load(&file, &name, overrides);
        }
        Scenario::load(&file, id, overrides)
    }

    /// The file of a scenario, by its name, or by the name of a file that ends in `.toml`.
    pub fn file(&self, id: &str) -> PathBuf {
        match id.ends_with(".toml") {
            true => PathBuf::from(id),
            false => self.directory.join(format!("{id}.toml")),
        }
    }
}

/// Sorts 2.11 after 2.9.
fn natural(id: &str) -> Vec<(u64, String)> {
    let mut parts = Vec::new();
    let mut rest = id;
    while !rest.is_empty() {
        let text_end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (text, tail) = rest.split_at(text_end);
        let digits_end = tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
        let (digits, tail) = tail.split_at(digits_end);
        parts.push((0, text.to_owned()));
        parts.push((digits.parse().unwrap_or(0), String::new()));
        rest = tail;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_in_order() {
        let mut ids = vec!["caro/2.11", "caro/2.9", "caro/3.1", "abc/1", "caro/2.9b"];
        ids.sort_by_key(|id| natural(id));
        assert_eq!(ids, ["abc/1", "caro/2.9", "caro/2.9b", "caro/2.11", "caro/3.1"]);
    }

    #[test]
    fn a_file_of_the_directory_has_its_name() {
        let library = Library::find(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
        let file = library.directory().join("caro/../caro/2.5.toml").display().to_string();
        assert_eq!(library.expand(&[file]).unwrap(), ["caro/2.5"]);
        assert_eq!(library.expand(&["of-mine.toml".to_owned()]).unwrap(), ["of-mine.toml"]);
    }

    #[test]
    fn the_program_has_the_scenarios_in_it() {
        let here = Library::find(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
        let library = Library::embedded().unwrap();
        assert_eq!(library.ids().unwrap(), here.ids().unwrap());
        for (name, _) in EMBEDDED {
            let text = |library: &Library| fs::read(library.directory().join(name)).unwrap();
            assert!(text(&library) == text(&here), "{name}");
        }
        let scenario = library.load("caro/2.5", &[]).unwrap();
        assert!(crate::reference::load(&scenario).unwrap().len() > 100);
        assert_eq!(crate::check::unrecorded(&scenario).unwrap(), [] as [&str; 0]);
        let directory = library.directory().to_owned();
        drop(library);
        assert!(!directory.exists());
    }

    #[test]
    fn documents_and_scenarios_are_found() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["caro/2.5.toml", "caro/reference.csv", "nat/4.6.toml", "notes.txt"] {
            let file = dir.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        let library = Library::new(dir.path());
        assert_eq!(library.ids().unwrap(), ["caro/2.5", "nat/4.6"]);
        let expand = |name: &str| library.expand(&[name.to_owned()]);
        assert_eq!(expand("caro").unwrap(), ["caro/2.5"]);
        assert_eq!(expand("nat/4.6").unwrap(), ["nat/4.6"]);
        assert!(expand("car").is_err());
        assert!(library.load("nat/4.6", &[]).unwrap_err().to_string().contains("4.6.toml:1: "));
    }
}

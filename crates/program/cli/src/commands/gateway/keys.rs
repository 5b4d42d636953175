//! Keys of both sides, and the users that the far side knows.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anabranch::seal::{PublicKey, SecretKey};

use crate::failure::Failure;

/// The directory of keys: that of this user's configuration.
fn directory() -> Result<PathBuf, Failure> {
    let not_empty = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let config = not_empty("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = config.or_else(|| Some(Path::new(&not_empty("HOME")?).join(".config")));
    let config = config.ok_or_else(|| {
        Failure::failed("neither XDG_CONFIG_HOME nor HOME is set: name the key file with --key")
    })?;
    Ok(config.join("anabranch"))
}

/// The file with this name in the user's configuration, whose directory is made if it is missing.
pub(crate) fn in_configuration(name: &str) -> Result<PathBuf, Failure> {
    let directory = directory()?;
    make(&directory)?;
    Ok(directory.join(name))
}

/// The key in this file, or by default in `name` of the user's configuration. It is made if it is missing. Returns it
/// with its path.
pub(crate) fn key(file: Option<&Path>, name: &str) -> Result<(SecretKey, PathBuf), Failure> {
    let path = match file {
        Some(file) => file.to_owned(),
        None => in_configuration(name)?,
    };
    let key = SecretKey::load_or_create(&path).map_err(Failure::failed)?;
    Ok((key, path))
}

/// Makes a directory that only this user may read.
fn make(directory: &Path) -> Result<(), Failure> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory).map_err(|error| {
        Failure::failed(format!("the directory {} cannot be made: {error}", directory.display()))
    })
}

/// The keys that may use the far side: one a line in a file, with comments after '#'.
#[derive(Debug)]
pub(super) struct Users {
    file: PathBuf,
    keys: Vec<PublicKey>,
}

impl Users {
    /// Reads the file beside the key of the far side; it may be missing.
    pub(super) fn beside(key: &Path) -> Result<Self, Failure> {
        let file = key.with_extension("users");
        let name = file.display();
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(Failure::failed(format!("cannot read {name}: {error}"))),
        };
        let mut keys = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let key = line.split('#').next().unwrap_or_default().trim();
            if !key.is_empty() {
                let wrong = |error| format!("{name}, line {}: {error}", index + 1);
                keys.push(key.parse().map_err(|error| Failure::failed(wrong(error)))?);
            }
        }
        Ok(Self { file, keys })
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = PublicKey> {
        self.keys.iter().copied()
    }

    /// Adds a key, also to the file.
    pub(super) fn add(&mut self, key: PublicKey) -> Result<(), String> {
        if self.keys.contains(&key) {
            return Ok(());
        }
        self.keys.push(key);
        let mut options = std::fs::OpenOptions::new();
        let opened = options.append(true).create(true).open(&self.file);
        opened.and_then(|mut file| writeln!(file, "{key}")).map_err(|error| {
            let name = self.file.display();
            format!(
                "{key} may use this gateway until it ends, but cannot be saved in {name}: {error}"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (secret, path) = key(Some(&folder.path().join("far.key")), "unused").unwrap();
        let other = SecretKey::generate().unwrap().public();
        let mut users = Users::beside(&path).unwrap();
        assert_eq!(users.keys().count(), 0);
        for key in [secret.public(), other, other] {
            users.add(key).unwrap();
        }
        let file = folder.path().join("far.users");
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(text.lines().count(), 2);
        std::fs::write(&file, format!("# laptop\n{other} # old\n\n")).unwrap();
        assert!(Users::beside(&path).unwrap().keys().eq([other]));
        std::fs::write(&file, "x\n").unwrap();
        let error = Users::beside(&path).unwrap_err();
        assert!(error.told().0.unwrap().contains("far.users, line 1: "), "{error:?}");
    }
}

//! The keys that may use a server, and what each may have: one a line in a file, which may change while it runs.

use std::fs::Metadata;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anabranch::seal::PublicKey;
use anabranch_gateway::{Allowance, Allowances};

use crate::failure::Failure;

/// The largest file that is read.
const MOST_BYTES: u64 = 1 << 20;

/// In place of a key: each user whose line does not say otherwise.
const OTHERS: &str = "*";

/// The users of a server.
#[derive(Debug)]
pub(crate) struct Users {
    file: PathBuf,
    keys: Vec<PublicKey>,
    allowances: Allowances,
    /// Those that could not be saved. The file says nothing about them.
    unsaved: Vec<PublicKey>,
    /// The state of the file that was read.
    read: Stamp,
    /// The state at the last look.
    seen: Stamp,
}

/// By which a change of the file is noticed. `None` if it is missing.
type Stamp = Option<(Option<SystemTime>, u64)>;

/// What changed in the file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changed {
    pub(crate) added: Vec<PublicKey>,
    pub(crate) removed: Vec<PublicKey>,
    /// What users may have now, if that has changed.
    pub(crate) allowances: Option<Allowances>,
}

impl Users {
    /// Reads the file beside the key of the server; it may be missing.
    pub(crate) fn beside(key: &Path) -> Result<Self, Failure> {
        let file = key.with_extension("users");
        let read = stamp(&file);
        let (keys, allowances) = match read {
            Some(_) => parse(&file).map_err(Failure::failed)?,
            None => <_>::default(),
        };
        Ok(Self { file, keys, allowances, unsaved: Vec::new(), read, seen: read })
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// The file that keeps what users have carried.
    pub(crate) fn usage(&self) -> PathBuf {
        self.file.with_extension("usage")
    }

    /// What users may have, by the text of their keys.
    pub(crate) fn allowances(&self) -> Allowances {
        self.allowances.clone()
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = PublicKey> {
        self.keys.iter().copied()
    }

    /// Adds a key, also to the file.
    pub(crate) fn add(&mut self, key: PublicKey) -> Result<(), String> {
        if self.keys.contains(&key) {
            return Ok(());
        }
        self.keys.push(key);
        let mut options = std::fs::OpenOptions::new();
        let opened = options.append(true).create(true).open(&self.file);
        opened.and_then(|mut file| writeln!(file, "{key}")).map_err(|error| {
            self.unsaved.push(key);
            let name = self.file.display();
            format!(
                "{key} is admitted until this server ends, but cannot be saved in {name}: {error}"
            )
        })
    }

    /// Looks whether the file has changed, and reads it if so. An editor may write it in steps: it is read when it was
    /// the same at two looks.
    ///
    /// # Errors
    /// It cannot be read, or has a wrong line. Then the users stay as they are until the file changes again.
    pub(crate) fn look(&mut self) -> Result<Changed, String> {
        let now = stamp(&self.file);
        let before = std::mem::replace(&mut self.seen, now);
        if now == self.read || now != before {
            return Ok(Changed::default());
        }
        self.read = now;
        let users = match now {
            Some(_) => parse(&self.file),
            None => Err(format!("{} is missing", self.file.display())),
        };
        let (mut keys, allowances) =
            users.map_err(|error| format!("{error}: the users stay as they are"))?;
        keys.extend(&self.unsaved);
        let without = |all: &[PublicKey], these: &[PublicKey]| {
            all.iter().copied().filter(|key| !these.contains(key)).collect()
        };
        let changed = Changed {
            added: without(&keys, &self.keys),
            removed: without(&self.keys, &keys),
            allowances: Some(allowances.clone()).filter(|new| *new != self.allowances),
        };
        (self.keys, self.allowances) = (keys, allowances);
        Ok(changed)
    }
}

fn stamp(file: &Path) -> Stamp {
    let of = |metadata: Metadata| (metadata.modified().ok(), metadata.len());
    match std::fs::metadata(file) {
        Ok(metadata) => Some(of(metadata)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        // Reading it tells why.
        Err(_) => Some((None, 0)),
    }
}

/// The keys in a file, with what each may have after it, and comments after '#'.
fn parse(file: &Path) -> Result<(Vec<PublicKey>, Allowances), String> {
    let name = file.display();
    let text = anabranch_units::read_text(file, MOST_BYTES);
    let text = text.map_err(|error| format!("cannot read {name}: {error}"))?;
    let (mut keys, mut allowances) = (Vec::new(), Allowances::default());
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let wrong = |error: &dyn std::fmt::Display| format!("{name}, line {}: {error}", index + 1);
        let (user, words) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let allowance: Allowance = words.parse().map_err(|error| wrong(&error))?;
        if user == OTHERS {
            allowances.others = allowance;
            continue;
        }
        let key: PublicKey = user.parse().map_err(|error| wrong(&error))?;
        keys.push(key);
        if !words.trim().is_empty() {
            allowances.of.insert(key.to_string(), allowance);
        }
    }
    Ok((keys, allowances))
}

#[cfg(test)]
mod tests {
    use anabranch::seal::SecretKey;

    use super::*;

    fn public() -> PublicKey {
        SecretKey::generate().unwrap().public()
    }

    #[test]
    fn users_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("far.key");
        let (one, other) = (public(), public());
        let mut users = Users::beside(&path).unwrap();
        assert_eq!(users.keys().count(), 0);
        for key in [one, other, other] {
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

    #[test]
    fn the_file_may_change() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("far.key");
        let file = folder.path().join("far.users");
        let (one, other, third) = (public(), public(), public());
        let mut users = Users::beside(&path).unwrap();
        users.add(one).unwrap();
        let quiet = Changed::default();
        // Its own line is no change.
        assert_eq!([users.look().unwrap(), users.look().unwrap()], [quiet, Changed::default()]);
        std::fs::write(&file, "").unwrap();
        assert_eq!(users.look().unwrap(), Changed::default(), "it is just being written");
        std::fs::write(&file, format!("{other}\n{third} # phone\n")).unwrap();
        users.look().unwrap();
        let changed = users.look().unwrap();
        assert_eq!((changed.added, changed.removed), (vec![other, third], vec![one]));
        assert_eq!(users.look().unwrap(), Changed::default());
        // Mistakes lock nobody out, and each is reported once.
        for mistake in [Some("anbk:x"), None] {
            match mistake {
                Some(text) => std::fs::write(&file, text).unwrap(),
                None => std::fs::remove_file(&file).unwrap(),
            }
            users.look().unwrap();
            assert!(users.look().unwrap_err().ends_with(": the users stay as they are"));
            assert_eq!(users.look().unwrap(), Changed::default());
            assert!(users.keys().eq([other, third]));
        }
        std::fs::write(&file, "# nobody\n").unwrap();
        users.look().unwrap();
        assert_eq!(users.look().unwrap().removed, [other, third]);
    }

    #[test]
    fn users_have_bounds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("far.key");
        let file = folder.path().join("far.users");
        let (one, other) = (public(), public());
        let text = format!("* rate=1Mb/s\n{one}\tconnections=5 # laptop\n{other}\n");
        std::fs::write(&file, &text).unwrap();
        let mut users = Users::beside(&path).unwrap();
        assert!(users.keys().eq([one, other]));
        assert_eq!(users.usage(), folder.path().join("far.usage"));
        let of = [(one.to_string(), "connections=5".parse().unwrap())].into();
        let others = "rate=1Mb/s".parse().unwrap();
        assert_eq!(users.allowances(), Allowances { of, others });
        std::fs::write(&file, text.replace("1Mb/s", "10Mb/s limit=1GB/d")).unwrap();
        users.look().unwrap();
        let changed = users.look().unwrap();
        assert_eq!((changed.added, changed.removed), (vec![], vec![]));
        assert_eq!(changed.allowances, Some(users.allowances()));
        assert_eq!(users.allowances().others, "rate=10Mb/s limit=1GB/d".parse().unwrap());
        std::fs::write(&file, format!("{one} rate=1\n")).unwrap();
        users.look().unwrap();
        let error = users.look().unwrap_err();
        assert!(error.contains("far.users, line 1: rate is \"1\""), "{error}");
        assert_eq!(users.allowances().others, "rate=10Mb/s limit=1GB/d".parse().unwrap());
    }

    #[test]
    fn who_cannot_be_saved_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("none/far.key");
        let (one, other) = (public(), public());
        let mut users = Users::beside(&path).unwrap();
        assert!(users.add(one).unwrap_err().contains("cannot be saved"));
        std::fs::create_dir(folder.path().join("none")).unwrap();
        std::fs::write(folder.path().join("none/far.users"), other.to_string()).unwrap();
        users.look().unwrap();
        let changed = users.look().unwrap();
        assert_eq!((changed.added, changed.removed), (vec![other], vec![]));
        assert!(users.keys().eq([other, one]));
    }
}

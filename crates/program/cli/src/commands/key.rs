//! `anabranch key`: the keys of sealed paths.

use std::fs::DirBuilder;
use std::path::{Path, PathBuf};

use anabranch::seal::{KeyFileError, SecretKey};
use clap::{Args, Subcommand};

use crate::failure::Failure;
use crate::output;

/// Make and show keys of sealed paths
///
/// A secret key is in a file that only its owner may read. Other programs know it by the public key,
/// which is no secret: servers allow it, and clients find a server's in its invitation.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch key new
  anabranch key new server.key
  anabranch key show server.key")]
pub(crate) struct Key {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make a secret key and its file, which must not exist, and print the public key
    New {
        /// The file [default: anabranch/key in XDG_CONFIG_HOME or ~/.config]
        file: Option<PathBuf>,
    },
    /// Print the public key of a key file
    Show {
        /// The file [default: anabranch/key in XDG_CONFIG_HOME or ~/.config]
        file: Option<PathBuf>,
    },
}

impl Key {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let key = match self.action {
            Action::New { file } => {
                let key = SecretKey::generate().map_err(Failure::failed)?;
                let path = file.map_or_else(default_in_new_folder, Ok)?;
                key.save(&path).map_err(|error| refused(&error))?;
                key
            }
            Action::Show { file } => {
                let path = file.map_or_else(default_file, Ok)?;
                SecretKey::load(&path).map_err(|error| refused(&error))?
            }
        };
        output::print(&format!("{}\n", key.public()))
    }
}

/// An error with what to do about it.
fn refused(error: &KeyFileError) -> Failure {
    match error {
        KeyFileError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            Failure::failed(format!("{error}; 'anabranch key new' makes one"))
        }
        KeyFileError::Io { path, source } if source.kind() == std::io::ErrorKind::AlreadyExists => {
            let path = path.display();
            Failure::failed(format!("{path} exists and is not replaced: name another file"))
        }
        _ => Failure::failed(error),
    }
}

/// The key file of the user.
fn default_file() -> Result<PathBuf, Failure> {
    let from = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let config = from("XDG_CONFIG_HOME").filter(|folder| folder.is_absolute());
    let config = config.or_else(|| from("HOME").map(|home| home.join(".config")));
    let config = config.ok_or_else(|| {
        Failure::failed("neither XDG_CONFIG_HOME nor HOME is set: name the key file")
    })?;
    Ok(config.join("anabranch").join("key"))
}

/// The same, after making its folder.
fn default_in_new_folder() -> Result<PathBuf, Failure> {
    let file = default_file()?;
    if let Some(folder) = file.parent() {
        make_folder(folder).map_err(|error| {
            Failure::failed(format!("cannot make the folder {}: {error}", folder.display()))
        })?;
    }
    Ok(file)
}

fn make_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

//! Keys of both sides.

use std::path::{Path, PathBuf};

use anabranch::seal::SecretKey;

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

//! The files that a command is to write, looked at before it begins: hours of work are not to end with a wrong name.

use std::path::Path;

use crate::failure::Failure;

/// Options that are given, each with its file.
type Files<'a> = [(&'a str, Option<&'a Path>)];

/// Checks that the files of these options can be there, and that no two of them are the same one.
pub(crate) fn check(files: &Files<'_>) -> Result<(), Failure> {
    apart(files)?;
    for (option, file) in given(files) {
        let name = file.display();
        if file.is_dir() {
            return Err(Failure::failed(format!("{option}: {name} is a directory")));
        }
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            let folder = folder.display();
            return Err(Failure::failed(format!(
                "{option}: there is no directory {folder} for {name}"
            )));
        }
    }
    Ok(())
}

/// Checks that no two of the files are the same one.
pub(crate) fn apart(files: &Files<'_>) -> Result<(), Failure> {
    for (index, (option, file)) in given(files).enumerate() {
        let before = given(files).take(index).find(|(_, other)| is_same(other, file));
        if let Some((other, _)) = before {
            return Err(Failure::usage(format!(
                "{other} and {option} name one file, {}: give each one of its own",
                file.display()
            )));
        }
    }
    Ok(())
}

/// Those that are files: standard output has rules of its own, and into a device all may go.
fn given<'a>(files: &Files<'a>) -> impl Iterator<Item = (&'a str, &'a Path)> {
    let given = files.iter().filter_map(|(option, file)| Some((*option, (*file)?)));
    given.filter(|(_, file)| {
        let is_device = || file.exists() && !file.is_file() && !file.is_dir();
        file.as_os_str() != "-" && !is_device()
    })
}

/// Whether two names are of one file.
fn is_same(one: &Path, other: &Path) -> bool {
    let whole = |file: &Path| {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok()?;
        let file = folder.join(file.file_name()?);
        Some(file.canonicalize().unwrap_or(file))
    };
    one == other || whole(one).is_some_and(|one| whole(other) == Some(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_apart_and_can_be_there() {
        let folder = tempfile::tempdir().unwrap();
        let within = |name: &str| folder.path().join(name);
        let told = |files: &[(&str, Option<&Path>)]| {
            check(files).err().map(|failure| failure.told().0.unwrap_or_default().to_owned())
        };
        let (one, again) = (within("a"), folder.path().join(".").join("a"));
        assert_eq!(told(&[("--x", Some(&one)), ("--y", None), ("--z", Some(&within("b")))]), None);
        let same = told(&[("--x", Some(&one)), ("--y", Some(&again))]).unwrap();
        assert!(same.starts_with("--x and --y name one file, "), "{same}");
        let directory = told(&[("--x", Some(folder.path()))]).unwrap();
        assert!(directory.ends_with(" is a directory"), "{directory}");
        let nowhere = told(&[("--x", Some(&within("no/file")))]).unwrap();
        assert!(nowhere.starts_with("--x: there is no directory "), "{nowhere}");
        let out = Path::new("-");
        assert_eq!(told(&[("--x", Some(out)), ("--y", Some(out))]), None);
        let nothing = Path::new("/dev/null");
        assert_eq!(told(&[("--x", Some(nothing)), ("--y", Some(nothing))]), None);
    }
}

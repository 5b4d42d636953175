//! Checks the output files of a command before it begins, so that hours of work are not lost to a wrong name.

use std::path::Path;

use crate::failure::Failure;

/// Options, each with its file if it is given.
type Files<'a> = [(&'a str, Option<&'a Path>)];

/// Checks that the files of these options can be created. The module `files` has already checked that they differ
/// from each other and from the inputs.
pub(crate) fn check(files: &Files<'_>) -> Result<(), Failure> {
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

/// The regular files. Standard output has separate rules, and devices may be shared.
fn given<'a>(files: &Files<'a>) -> impl Iterator<Item = (&'a str, &'a Path)> {
    let given = files.iter().filter_map(|(option, file)| Some((*option, (*file)?)));
    given.filter(|(_, file)| {
        let is_device = || file.exists() && !file.is_file() && !file.is_dir();
        file.as_os_str() != "-" && !is_device()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_can_be_there() {
        let folder = tempfile::tempdir().unwrap();
        let within = |name: &str| folder.path().join(name);
        let told = |files: &[(&str, Option<&Path>)]| {
            check(files).err().map(|failure| failure.told().0.unwrap_or_default().to_owned())
        };
        let one = within("a");
        assert_eq!(told(&[("--x", Some(&one)), ("--y", None), ("--z", Some(&within("b")))]), None);
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

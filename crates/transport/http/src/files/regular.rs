//! Opens files that may have been replaced since they were examined.

use std::io;
use std::path::Path;

use cap_std::fs::{Dir, OpenOptions};

/// Opens a file for reading. If it has become a pipe or a device, this does not block, and fails with "not found".
pub(crate) fn open(root: &Dir, path: &Path) -> io::Result<std::fs::File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::OFlags;
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits();
        cap_std::fs::OpenOptionsExt::custom_flags(&mut options, flags.cast_signed());
    }
    let file = root.open_with(path, &options)?.into_std();
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(file)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use cap_std::ambient_authority;
    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    #[test]
    fn a_pipe_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        mkfifoat(CWD, directory.path().join("pipe"), Mode::RUSR | Mode::WUSR).unwrap();
        std::fs::write(directory.path().join("file"), "text").unwrap();
        let root = Dir::open_ambient_dir(directory.path(), ambient_authority()).unwrap();
        assert_eq!(open(&root, Path::new("pipe")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(
            std::io::read_to_string(open(&root, Path::new("file")).unwrap()).unwrap(),
            "text"
        );
    }
}

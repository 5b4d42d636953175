//! Resolves absolute symbolic links to targets below the served directory.
//!
//! The directory handle follows only relative links. Here an absolute link is translated into a path below the
//! directory. That path is opened through the handle like any other, so nothing outside can be reached.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use cap_std::fs::Dir;

/// Maximum number of links followed for one path, as in Linux.
const MOST_LINKS: usize = 40;

/// The absolute paths of the served directory.
#[derive(Debug, Default)]
pub(super) struct Names(Vec<PathBuf>);

impl Names {
    pub(super) fn of(directory: &Path) -> Self {
        let names = [directory.canonicalize().ok(), std::path::absolute(directory).ok()];
        Self(names.into_iter().flatten().collect())
    }

    /// Returns the target of `path` with its links followed; `None` if none of them is absolute, or if one leads
    /// out of the directory.
    pub(super) fn follow(&self, root: &Dir, path: &Path) -> Option<PathBuf> {
        let mut followed = PathBuf::from(".");
        // The components still to walk, in reverse order.
        let mut rest = components(path)?;
        let (mut links, mut absolute) = (0, false);
        while let Some(name) = rest.pop() {
            if name == ".." {
                if !followed.pop() || followed.as_os_str().is_empty() {
                    return None;
                }
                continue;
            }
            let next = followed.join(&name);
            let Ok(target) = root.read_link_contents(&next) else {
                followed = next;
                continue;
            };
            links += 1;
            if links > MOST_LINKS {
                return None;
            }
            let inside = self.0.iter().find_map(|own| target.strip_prefix(own).ok());
            if target.is_absolute() {
                absolute = true;
                followed = PathBuf::from(".");
            }
            rest.extend(components(if target.is_absolute() { inside? } else { &target })?);
        }
        absolute.then_some(followed)
    }
}

/// The components of a relative path, in reverse order.
fn components(path: &Path) -> Option<Vec<OsString>> {
    let names = path.components().rev().filter(|component| *component != Component::CurDir);
    let names = names.map(|component| match component {
        Component::Normal(_) | Component::ParentDir => Some(component.as_os_str().to_owned()),
        _ => None,
    });
    names.collect()
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use cap_std::ambient_authority;

    use super::*;

    #[test]
    fn absolute_links_are_followed_inside() {
        let base = tempfile::tempdir().unwrap();
        let root = base.path().join("root");
        std::fs::create_dir_all(root.join("sub/deep")).unwrap();
        std::fs::write(root.join("sub/file"), "").unwrap();
        symlink(root.join("sub/file"), root.join("file")).unwrap();
        symlink(root.join("sub"), root.join("folder")).unwrap();
        symlink("folder", root.join("relative")).unwrap();
        symlink("../file", root.join("sub/up")).unwrap();
        symlink(&root, root.join("self")).unwrap();
        symlink("/etc/passwd", root.join("out")).unwrap();
        symlink(root.join("../secret"), root.join("dots")).unwrap();
        symlink(root.join("loop"), root.join("loop")).unwrap();
        symlink(base.path().join("rootless"), root.join("near")).unwrap();
        // The directory has a second name.
        symlink(&root, base.path().join("alias")).unwrap();
        symlink(base.path().join("alias/sub/file"), root.join("other")).unwrap();
        let names = Names::of(&base.path().join("alias"));
        let handle = Dir::open_ambient_dir(&root, ambient_authority()).unwrap();
        let follow = |path: &str| names.follow(&handle, Path::new(path));
        for (path, leads) in [
            ("./file", "./sub/file"),
            ("folder/file", "./sub/file"),
            ("relative/deep", "./sub/deep"),
            ("folder/nothing", "./sub/nothing"),
            ("sub/up", "./sub/file"),
            ("self/self/sub", "./sub"),
            ("other", "./sub/file"),
            ("self", "."),
        ] {
            assert_eq!(follow(path), Some(PathBuf::from(leads)), "{path}");
        }
        for path in ["sub/file", "out", "dots", "loop", "near", "nothing", "../root/file"] {
            assert_eq!(follow(path), None, "{path}");
        }
    }
}

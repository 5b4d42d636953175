//! Programs that cannot use the library, as far as their files tell.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use object::elf::{FileClass, FileHeader32, FileHeader64, Machine, PT_INTERP};
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader as _};
use object::{Endianness, FileKind};

/// Scripts whose interpreters are scripts, as many as Linux follows.
const SCRIPTS: usize = 4;

/// The longest first line of a script, and name of a dynamic linker: bytes.
const LONGEST: u64 = 4096;

/// Why a program cannot use the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// It is setuid or setgid, so the dynamic linker ignores LD_PRELOAD.
    Privileges,
    /// Its C library is musl. It would not start, because the library needs glibc.
    Musl,
    /// It is for another processor than the library, or for one of 32 bits.
    Machine,
    /// It is linked statically, so there is no dynamic linker.
    Static,
}

impl Obstacle {
    /// What prevents `program` from using `library`, if something does. The program is a path, or a name that is looked
    /// for in PATH. A program that cannot be read has no obstacle.
    #[must_use]
    pub fn of(program: &OsStr, library: &Path) -> Option<Self> {
        let mut file = found(program)?;
        for _ in 0..SCRIPTS {
            match interpreter(&file) {
                Some(name) => file = name,
                None => break,
            }
        }
        if takes_privileges(&file) {
            return Some(Self::Privileges);
        }
        let image = Image::of(&file)?;
        match image.linker {
            None => Some(Self::Static),
            _ if image.machine != Image::of(library)?.machine => Some(Self::Machine),
            Some(linker) if has(&linker, b"/ld-musl-") => Some(Self::Musl),
            Some(_) => None,
        }
    }
}

/// The file that `exec` would take.
fn found(program: &OsStr) -> Option<PathBuf> {
    let path = Path::new(program);
    if program.as_bytes().contains(&b'/') {
        return Some(path.to_owned());
    }
    let directories = std::env::var_os("PATH")?;
    let mut files = std::env::split_paths(&directories).map(|directory| directory.join(path));
    files.find(|file| file.metadata().is_ok_and(|file| file.is_file() && file.mode() & 0o111 != 0))
}

/// The program that the first line of a script names.
fn interpreter(script: &Path) -> Option<PathBuf> {
    let mut start = Vec::new();
    File::open(script).ok()?.take(LONGEST).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let name = line.trim_ascii_start().split(|byte| b" \t".contains(byte)).next()?;
    Some(OsString::from_vec(name.to_vec()).into())
}

/// Whether `exec` gives the program the rights of another user or group.
fn takes_privileges(file: &Path) -> bool {
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    file.metadata().is_ok_and(|file| {
        (file.mode() & 0o4000 != 0 && file.uid() != user.as_raw())
            || (file.mode() & 0o2010 == 0o2010 && file.gid() != group.as_raw())
    })
}

/// What the headers of an executable say.
struct Image {
    /// 32 or 64 bits, and the processor.
    machine: (FileClass, Machine),
    /// The name of its dynamic linker.
    linker: Option<Vec<u8>>,
}

impl Image {
    fn of(file: &Path) -> Option<Self> {
        let cache = ReadCache::new(File::open(file).ok()?);
        match FileKind::parse(&cache).ok()? {
            FileKind::Elf32 => Self::read::<FileHeader32<Endianness>>(&cache),
            FileKind::Elf64 => Self::read::<FileHeader64<Endianness>>(&cache),
            _ => None,
        }
    }

    fn read<H: FileHeader<Endian = Endianness>>(cache: &ReadCache<File>) -> Option<Self> {
        let header = H::parse(cache).ok()?;
        let endian = header.endian().ok()?;
        let machine = (header.e_ident().class, header.e_machine(endian));
        let parts = header.program_headers(endian, cache).ok()?;
        let Some(name) = parts.iter().find(|part| part.p_type(endian) == PT_INTERP) else {
            return Some(Self { machine, linker: None });
        };
        if name.p_filesz(endian).into() > LONGEST {
            return None;
        }
        Some(Self { machine, linker: Some(name.interpreter(endian, cache).ok()??.to_vec()) })
    }
}

fn has(name: &[u8], part: &[u8]) -> bool {
    name.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A file of this test.
    fn file(directory: &tempfile::TempDir, name: &str, content: &[u8]) -> PathBuf {
        let path = directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// An executable of nothing but headers, for x86-64. The dynamic linker's name comes at its end.
    fn executable(linker: Option<&str>) -> Vec<u8> {
        let mut file = vec![0; 64 + 56];
        file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        // Type, processor, version; then where the program headers are, their size and number.
        file[16..24].copy_from_slice(&[2, 0, 62, 0, 1, 0, 0, 0]);
        file[32] = 64;
        file[52..58].copy_from_slice(&[64, 0, 56, 0, 1, 0]);
        if let Some(linker) = linker {
            file[64] = 3;
            file[64 + 8] = 64 + 56;
            file[64 + 32] = u8::try_from(linker.len() + 1).unwrap();
            file.extend_from_slice(linker.as_bytes());
            file.push(0);
        }
        file
    }

    /// The same of 32 bits, for the 80386.
    fn executable_of_32_bits() -> Vec<u8> {
        let linker = b"/lib/ld-linux.so.2\0";
        let mut file = vec![0; 52 + 32];
        file[..7].copy_from_slice(b"\x7fELF\x01\x01\x01");
        file[16..24].copy_from_slice(&[2, 0, 3, 0, 1, 0, 0, 0]);
        file[28] = 52;
        file[40..46].copy_from_slice(&[52, 0, 32, 0, 1, 0]);
        (file[52], file[52 + 4]) = (3, 52 + 32);
        file[52 + 16] = u8::try_from(linker.len()).unwrap();
        file.extend_from_slice(linker);
        file
    }

    #[test]
    fn headers_tell_what_cannot_work() {
        let files = tempfile::tempdir().unwrap();
        let library = file(&files, "library.so", &executable(None));
        let mut other = executable(Some("/lib/ld-linux-aarch64.so.1"));
        other[18] = 183;
        let cases = [
            (executable(Some("/lib64/ld-linux-x86-64.so.2")), None),
            (executable(Some("/lib/ld-musl-x86_64.so.1")), Some(Obstacle::Musl)),
            (executable(None), Some(Obstacle::Static)),
            (other, Some(Obstacle::Machine)),
            (executable_of_32_bits(), Some(Obstacle::Machine)),
            (b"neither one nor a script".to_vec(), None),
            (executable(None)[..80].to_vec(), None),
            (Vec::new(), None),
        ];
        for (content, expected) in cases {
            let program = file(&files, "program", &content);
            assert_eq!(Obstacle::of(program.as_os_str(), &library), expected, "{content:?}");
            // Through a script.
            let script = format!("#! {} -x\nno command", program.display());
            let script = file(&files, "script", script.as_bytes());
            assert_eq!(Obstacle::of(script.as_os_str(), &library), expected);
        }
    }

    #[test]
    fn scripts_that_name_each_other_end() {
        let files = tempfile::tempdir().unwrap();
        let script = files.path().join("script");
        std::fs::write(&script, format!("#!{}\n", script.display())).unwrap();
        assert_eq!(Obstacle::of(script.as_os_str(), &script), None);
        assert_eq!(Obstacle::of(files.path().join("nothing").as_os_str(), &script), None);
    }

    #[test]
    fn a_name_is_looked_for_in_path() {
        assert_eq!(found(OsStr::new("sh")).unwrap().file_name().unwrap(), "sh");
        assert_eq!(found(OsStr::new("no program has this name")), None);
        assert_eq!(found(OsStr::new("./a")), Some(PathBuf::from("./a")));
    }

    #[test]
    fn the_own_groups_program_takes_nothing() {
        let files = tempfile::tempdir().unwrap();
        let program = file(&files, "program", b"");
        let mut mode = std::fs::metadata(&program).unwrap().permissions();
        mode.set_mode(0o6755);
        std::fs::set_permissions(&program, mode).unwrap();
        assert!(!takes_privileges(&program));
    }
}

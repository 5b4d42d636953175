//! `anabranch key`: files, their permissions, and what is refused.

use std::path::Path;
use std::process::Command;

fn key(home: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command.env_remove("XDG_CONFIG_HOME").env("HOME", home).current_dir(home);
    let output = command.arg("key").args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_key_is_made_once_and_shown() {
    let home = tempfile::tempdir().unwrap();
    let (code, made, error) = key(home.path(), &["new"]);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    assert!(made.starts_with("anbk:") && made.lines().count() == 1, "{made}");
    let file = home.path().join(".config/anabranch/key");
    assert!(std::fs::read_to_string(&file).unwrap().starts_with("anbs:"));
    assert_eq!(key(home.path(), &["show"]), (Some(0), made.clone(), String::new()));
    let named = file.to_str().unwrap();
    assert_eq!(key(home.path(), &["show", named]).1, made);
    // The key is not replaced.
    let (code, out, error) = key(home.path(), &["new"]);
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(error.contains("exists and is not replaced"), "{error}");
    assert_eq!(key(home.path(), &["show"]).1, made);
    let (_, other, _) = key(home.path(), &["new", "other.key"]);
    assert!(other.starts_with("anbk:") && other != made);
}

#[test]
fn files_without_a_key_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let (code, _, error) = key(home.path(), &["show"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("'anabranch key new' makes one"), "{error}");
    std::fs::write(home.path().join("list"), "eggs").unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;

        let (_, _, error) = key(home.path(), &["show", "list"]);
        assert!(error.contains("chmod 600"), "{error}");
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(home.path().join("list"), mode).unwrap();
    }
    let (code, _, error) = key(home.path(), &["show", "list"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("has no key"), "{error}");
}

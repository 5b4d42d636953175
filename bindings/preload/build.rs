//! Makes the library known as libsctp: its name, and the versions of its symbols.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=libsctp.map");
    println!("cargo:rustc-check-cfg=cfg(versions)");
    let target = |name: &str| env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    if target("OS") != "linux" {
        return;
    }
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libsctp.so.1");
    // Two version scripts, rustc's and ours, are too many for GNU's linker. rustc brings LLVM's for this target
    // (since 1.90). Elsewhere the symbols have no versions, which the dynamic linker accepts with a warning.
    if (target("ARCH").as_str(), target("ENV").as_str()) == ("x86_64", "gnu") {
        let directory = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
        println!("cargo:rustc-cdylib-link-arg=-Wl,--version-script={directory}/libsctp.map");
        println!("cargo:rustc-cfg=versions");
    }
}

//! Runs the inputs in `fuzz/corpus-seed` with any toolchain. The tests of `anabranch-proto` replay
//! the inputs of the ring, those of `anabranch-gateway` the ones of the proxy and of SOCKS5.

fn replay(target: &str, run: fn(&[u8])) {
    let folder = format!("{}/../../../fuzz/corpus-seed/{target}", env!("CARGO_MANIFEST_DIR"));
    let mut inputs = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        run(&std::fs::read(&path).unwrap());
        inputs += 1;
    }
    assert!(inputs > 0, "no inputs in {folder}");
}

#[test]
fn bytes_inputs_pass() {
    replay("bytes", anabranch_fuzzing::bytes);
}

#[test]
fn decoder_inputs_pass() {
    replay("decoder", anabranch_fuzzing::decoder);
}

#[test]
fn scenario_inputs_pass() {
    replay("scenario", anabranch_fuzzing::scenario);
}

#[test]
fn endpoint_inputs_pass() {
    replay("endpoint", anabranch_fuzzing::endpoint);
}

#[test]
fn invitation_inputs_pass() {
    replay("invitation", anabranch_fuzzing::invitation);
}

#[test]
fn sealed_inputs_pass() {
    replay("sealed", anabranch_fuzzing::sealed);
}

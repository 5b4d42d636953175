//! The modules of the library can be read one after the other.

#[test]
fn no_modules_import_each_other_in_a_circle() {
    anabranch_citations::circles::assert_none(env!("CARGO_MANIFEST_DIR"));
}

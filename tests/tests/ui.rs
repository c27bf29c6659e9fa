//! What does not compile, with the messages that a user reads, and what must. `TRYBUILD=overwrite` writes the
//! messages anew: read each as a newcomer would before you commit it.

#[test]
fn diagnostics() {
    let cases = trybuild::TestCases::new();
    cases.pass("ui/pass/*.rs");
    cases.compile_fail("ui/fail/*.rs");
    cases.compile_fail("ui/leaks/*.rs");
}

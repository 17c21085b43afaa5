//! `hearth demo`, as people meet it.

#[path = "support/fixture.rs"]
mod fixture;

use fixture::{Fixture, skipped, text};

#[test]
fn the_demonstration_shows_a_right_product_and_leaves_nothing() {
    let test = "the_demonstration_shows_a_right_product_and_leaves_nothing";
    if skipped(test, &[]) {
        return;
    }
    let fixture = Fixture::new();
    let output = fixture.run(&["demo"]);
    let text = text(&output.stdout);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for word in ["native", "none", "hint", "home", "right", "where the bytes"] {
        assert!(text.contains(word), "`{word}` is missing:\n{text}");
    }
    assert!(!text.contains("WRONG"), "{text}");
}

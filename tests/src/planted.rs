//! A fault planted in the runtime must turn a case red that is green without it.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;

tokio::task_local! {
    static PLANT: &'static str;
}

/// The variable of a program's environment that plants the fault of the running case, if one is.
pub(crate) fn variable() -> Option<(&'static str, &'static str)> {
    PLANT.try_with(|plant| ("IDEM_PLANT", *plant)).ok()
}

/// Runs a case as it is, and again with a fault planted in every program that it starts.
///
/// # Panics
///
/// When the first run fails, or the second does not, or only because a program did not start.
pub async fn assert_turns_red(plant: &'static str, name: &str, case: impl AsyncFn()) {
    case().await;
    let planted = AssertUnwindSafe(PLANT.scope(plant, case()));
    let Err(panic) = planted.catch_unwind().await else {
        panic!("{plant}: `{name}` stays green");
    };
    let why = message(&*panic);
    assert!(
        !why.contains("did not start"),
        "{plant}: `{name}` could not run: {why}"
    );
    let line: String = why.split_whitespace().collect::<Vec<_>>().join(" ");
    let line: String = line.chars().take(160).collect();
    println!("{plant} turns `{name}` red: {line}");
}

fn message(panic: &(dyn Any + Send)) -> &str {
    if let Some(text) = panic.downcast_ref::<String>() {
        return text;
    }
    panic.downcast_ref::<&str>().copied().unwrap_or("no text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    #[should_panic(expected = "stays green")]
    async fn a_case_that_sees_nothing_is_found_out() {
        assert_turns_red("NoClaim", "nothing", async || {}).await;
    }

    #[tokio::test]
    async fn the_fault_is_planted_in_the_second_run_only() {
        let case = async || assert_eq!(variable(), None);
        assert_turns_red("NoClaim", "nothing planted", case).await;
        assert_eq!(variable(), None);
    }
}

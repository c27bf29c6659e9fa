//! Processes whose wall clock is off.
//!
//! [libfaketime](https://github.com/wolfcw/libfaketime), loaded before everything else, tells a child another time of day.
//! How fast time passes is left alone: pauses and limits last as long as they do for everybody.

use std::path::PathBuf;
use std::time::SystemTime;

use crate::application::Setting;
use crate::http::Answer;

/// How far a clock that is off may be from where it was set, in seconds: what an answer takes on a loaded machine.
const NEAR: i64 = 120;

/// A wall clock, by how many seconds it is ahead of this machine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WallClock(i64);

impl WallClock {
    /// This machine's.
    pub const RIGHT: WallClock = WallClock(0);
    /// Ten minutes ahead.
    pub const AHEAD: WallClock = WallClock(600);
    /// Ten minutes behind.
    pub const BEHIND: WallClock = WallClock(-600);

    /// The variables of a process that has this clock.
    ///
    /// # Panics
    ///
    /// Where libfaketime is not installed as Debian does.
    pub fn environment(self) -> Vec<(&'static str, String)> {
        if self == Self::RIGHT {
            return Vec::new();
        }
        vec![
            ("LD_PRELOAD", library().display().to_string()),
            ("FAKETIME", format!("{:+}s", self.0)),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ]
    }

    /// A probe with this clock.
    pub fn of(self, setting: &Setting) -> Setting {
        let variables = self.environment().into_iter();
        variables.fold(setting.clone(), |setting, (name, value)| {
            setting.with(name, value)
        })
    }

    /// Asserts that who gave this answer has this clock, by the answer's `Date`.
    #[track_caller]
    pub fn assert_shown_by(self, answer: &Answer) {
        let shown = seconds_from_now(answer.header("date").unwrap_or_default());
        assert!((shown - self.0).abs() < NEAR, "{self:?}: {answer:?}");
    }
}

/// Removes what the library leaves behind of a process that was killed.
pub(crate) fn tidy_up_after(process: u32) {
    for name in ["faketime_shm", "sem.faketime_sem"] {
        // Of most processes there is nothing.
        let _ = std::fs::remove_file(format!("/dev/shm/{name}_{process}"));
    }
}

/// How far an HTTP date is from now, by this process's clock.
///
/// # Panics
///
/// When it is none.
#[track_caller]
pub fn seconds_from_now(date: &str) -> i64 {
    let Ok(date) = httpdate::parse_http_date(date) else {
        panic!("no date: {date:?}");
    };
    let seconds = |time: SystemTime| {
        let since = time.duration_since(SystemTime::UNIX_EPOCH);
        i64::try_from(since.expect("after 1970").as_secs()).expect("a time of this age")
    };
    seconds(date) - seconds(SystemTime::now())
}

/// The library's file, in the directory of this machine's architecture.
fn library() -> PathBuf {
    let directories = std::fs::read_dir("/usr/lib").expect("libraries are in /usr/lib");
    let paths = directories.filter_map(|entry| {
        let path = entry.ok()?.path().join("faketime/libfaketimeMT.so.1");
        path.exists().then_some(path)
    });
    paths.last().expect(
        "libfaketime is not installed: run the tests with tests/run, or install its package",
    )
}

//! The page, section by section.

const PAGE: &str = include_str!("../../../../docs/operating-effects.md");

/// A section of the page.
#[derive(Debug, Default)]
pub(super) struct Section {
    pub(super) title: &'static str,
    /// The reasons that it is about, with `…` for what differs.
    pub(super) reasons: Vec<&'static str>,
    /// Its blocks of commands.
    pub(super) blocks: Vec<Vec<String>>,
}

pub(super) fn sections() -> Vec<Section> {
    let mut sections = vec![Section::default()];
    let mut lines = PAGE.lines();
    while let Some(line) = lines.next() {
        if let Some(title) = line.strip_prefix("## ") {
            sections.push(Section {
                title,
                ..Section::default()
            });
        }
        let section = sections.last_mut().unwrap();
        let Some(language) = line.strip_prefix("```") else {
            continue;
        };
        let block: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
        match language {
            "text" => section.reasons.extend(block),
            "sh" => section.blocks.push(commands(&block)),
            _ => {}
        }
    }
    sections
}

/// A command may be continued on the next line.
fn commands(lines: &[&str]) -> Vec<String> {
    let joined = lines.join("\n").replace("\\\n", " ");
    let lines = joined.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::to_owned)
        .collect()
}

pub(super) fn matches(pattern: &str, reason: &str) -> bool {
    let mut parts = pattern.split('…');
    let Some(mut rest) = reason.strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    let mut last = "";
    for part in parts {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
        last = part;
    }
    rest.is_empty() || (last.is_empty() && pattern.ends_with('…'))
}

#[test]
fn a_pattern_matches_whole_reasons() {
    assert!(matches("step `…` ended", "step `a` ended"));
    assert!(matches("can't: …", "can't: why"));
    assert!(matches("… attempts", "10 attempts"));
    assert!(!matches("step `…` ended", "step `a` ended itself"));
    assert!(!matches("step `…` ended", "the step `a` ended"));
}

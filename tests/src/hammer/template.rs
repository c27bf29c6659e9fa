//! Texts that differ from key to key.

/// A text in which `{number}` is the key's number, and `{key}` the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template(String);

impl Template {
    pub(super) fn new(text: impl Into<String>) -> Template {
        Template(text.into())
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// Whether two keys have different texts.
    pub(super) fn varies(&self) -> bool {
        self.0.contains("{number}") || self.0.contains("{key}")
    }

    pub(super) fn fill(&self, number: u64, key: &str) -> String {
        if !self.varies() {
            return self.0.clone();
        }
        self.0
            .replace("{number}", &number.to_string())
            .replace("{key}", key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_braces_stay_as_they_are() {
        let template = Template::new(r#"{"a":{"n":{number}},"b":"{key}","c":"{m}"}"#);
        assert_eq!(
            template.fill(7, "k-7"),
            r#"{"a":{"n":7},"b":"k-7","c":"{m}"}"#
        );
    }
}

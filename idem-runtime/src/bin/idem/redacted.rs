//! Messages without the passwords of URLs in them.

/// The text with every password between `://…:` and `@`, and in every `password=`, replaced.
pub(crate) fn redacted(text: &str) -> String {
    let mut left = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, url) = rest.split_at(at + "://".len());
        left.push_str(before);
        let end = url
            .find(|c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '`' | ')'))
            .unwrap_or(url.len());
        let (url, after) = url.split_at(end);
        // A password may hold an `@` that should have been escaped: the last one ends it.
        match url.rsplit_once('@') {
            Some((user, host)) if user.contains(':') => {
                let user = user.split(':').next().unwrap_or_default();
                left.push_str(&format!("{user}:***@{host}"));
            }
            _ => left.push_str(url),
        }
        rest = after;
    }
    left.push_str(rest);
    without_parameter(&left)
}

fn without_parameter(text: &str) -> String {
    const NAME: &str = "password=";
    let mut left = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(NAME) {
        let (before, value) = rest.split_at(at + NAME.len());
        left.push_str(before);
        left.push_str("***");
        let end = value
            .find(|c: char| c.is_whitespace() || matches!(c, '&' | '\'' | '"' | '`'))
            .unwrap_or(value.len());
        rest = &value[end..];
    }
    left.push_str(rest);
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_printed() {
        for (text, printed) in [
            (
                "postgres://idem:secret@host/db",
                "postgres://idem:***@host/db",
            ),
            (
                "'mysql://idem:sec@ret:1@host:3306/db' is",
                "'mysql://idem:***@host:3306/db' is",
            ),
            (
                "postgres://host/db?user=idem&password=secret&x=1",
                "postgres://host/db?user=idem&password=***&x=1",
            ),
            ("postgres://idem@host/db", "postgres://idem@host/db"),
            (
                "a://b:secret@c and d://e:secret@f",
                "a://b:***@c and d://e:***@f",
            ),
            ("nothing to hide: a@b", "nothing to hide: a@b"),
        ] {
            assert_eq!(redacted(text), printed);
        }
    }
}

//! SQL as words. No grammar: enough to tell where a statement begins and which words are not quoted.

/// One token of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A keyword or a name, in capitals.
    Word(String),
    /// A quoted name, in capitals.
    Name(String),
    /// A string, a number or a parameter.
    Value,
    Symbol(char),
}

impl Token {
    /// Whether this is the keyword.
    pub(super) fn is(&self, keyword: &str) -> bool {
        matches!(self, Token::Word(word) if word == keyword)
    }

    /// What it names, quoted or not.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Token::Word(name) | Token::Name(name) => Some(name),
            _ => None,
        }
    }
}

/// The statements of a script that are not empty.
pub(super) fn statements(script: &str) -> Vec<Vec<Token>> {
    tokens(script)
        .split(|token| *token == Token::Symbol(';'))
        .filter(|statement| !statement.is_empty())
        .map(<[Token]>::to_vec)
        .collect()
}

/// Whether it starts as SQL does.
pub(super) fn is_sql(text: &str) -> bool {
    const STARTS: [&str; 30] = [
        "ABORT",
        "ALTER",
        "BEGIN",
        "CALL",
        "COMMIT",
        "CREATE",
        "DELETE",
        "DROP",
        "END",
        "GRANT",
        "INSERT",
        "LOCK",
        "MERGE",
        "PRAGMA",
        "PREPARE",
        "RELEASE",
        "RENAME",
        "REPLACE",
        "REVOKE",
        "ROLLBACK",
        "SAVEPOINT",
        "SELECT",
        "SET",
        "START",
        "TRUNCATE",
        "UPDATE",
        "VALUES",
        "VACUUM",
        "WITH",
        "XA",
    ];
    tokens(text)
        .first()
        .is_some_and(|first| STARTS.iter().any(|start| first.is(start)))
}

/// Whether it can hardly be anything but SQL: a statement's two keywords.
pub(super) fn is_sentence(text: &str) -> bool {
    const PAIRS: [(&str, &str); 6] = [
        ("DELETE", "FROM"),
        ("INSERT", "INTO"),
        ("MERGE", "INTO"),
        ("REPLACE", "INTO"),
        ("SELECT", "FROM"),
        ("UPDATE", "SET"),
    ];
    let tokens = tokens(text);
    let has = |keyword: &str| tokens.iter().any(|token| token.is(keyword));
    is_sql(text)
        && PAIRS
            .iter()
            .any(|(first, second)| has(first) && has(second))
}

/// Ends early where the databases read the text in different ways: after a backslash before a quote.
fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if first.is_whitespace() {
            first.len_utf8()
        } else if rest.starts_with("--") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if matches!(first, '\'' | '"' | '`') {
            let (quoted, length) = quoted(rest, first);
            if quoted.ends_with('\\') {
                break;
            }
            tokens.push(match first {
                '\'' => Token::Value,
                _ => Token::Name(quoted.to_uppercase()),
            });
            length
        } else if first == '$' {
            tokens.push(Token::Value);
            dollar_quoted(rest)
        } else if first.is_ascii_digit() || first == '?' {
            tokens.push(Token::Value);
            1 + span(&rest[1..], |letter| {
                letter.is_ascii_digit() || letter == '.'
            })
        } else if first.is_alphabetic() || first == '_' {
            let length = span(rest, |letter| letter.is_alphanumeric() || letter == '_');
            tokens.push(Token::Word(rest[..length].to_uppercase()));
            length
        } else {
            tokens.push(Token::Symbol(first));
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    tokens
}

fn span(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.find(|letter| !belongs(letter)).unwrap_or(text.len())
}

/// What stands between quotes, up to the first one after it; a doubled one makes two tokens of one string, which does
/// no harm.
fn quoted(text: &str, quote: char) -> (&str, usize) {
    let inside = &text[1..];
    let end = inside.find(quote).unwrap_or(inside.len());
    (&inside[..end], text.len().min(end + 2))
}

/// The length of `$1`, or of `$tag$ .. $tag$`.
fn dollar_quoted(text: &str) -> usize {
    let tag = 1 + span(&text[1..], |letter| {
        letter.is_alphanumeric() || letter == '_'
    });
    if !text[tag..].starts_with('$') {
        return tag;
    }
    let (delimiter, body) = text.split_at(tag + 1);
    body.find(delimiter)
        .map_or(text.len(), |end| delimiter.len() + end + delimiter.len())
}

//! What a name must look like to be usable at run time, so that a mistake is met while compiling.

/// `"orders.create"`: it goes into records, metrics and logs.
pub(crate) fn operation_name(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("`operation` is empty: write a name, as \"orders.create\"".into());
    }
    if name.len() > 255 {
        return Err("`operation` is longer than 255 bytes".into());
    }
    match name.chars().find(|c| !c.is_ascii_graphic()) {
        None => Ok(()),
        Some(odd) => Err(format!(
            "`operation` has {odd:?} in it: use printable ASCII without spaces, as \"orders.create\""
        )),
    }
}

/// The name of a consumer or a source: it goes into rows, logs and dead letters.
pub(crate) fn consumer_name(argument: &str, example: &str, name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err(format!(
            "`{argument}` is empty: write a name, as \"{example}\""
        ));
    }
    if name.len() > 255 {
        return Err(format!("`{argument}` is longer than 255 bytes"));
    }
    match name.chars().find(|c| !c.is_ascii_graphic()) {
        None => Ok(()),
        Some(odd) => Err(format!(
            "`{argument}` has {odd:?} in it: use printable ASCII without spaces, as \"{example}\""
        )),
    }
}

/// Where a message's id is in its payload, as a JSON pointer of RFC 6901: `event_id`, `data.event_id` or `/data/event_id`.
pub(crate) fn id_field(field: &str) -> Result<String, String> {
    if field.starts_with('/') {
        let escapes_end = |rest: &str| rest.starts_with(['0', '1']);
        return if field.split('~').skip(1).all(escapes_end) {
            Ok(field.to_owned())
        } else {
            Err(format!(
                "{field:?} is no JSON pointer: write `~0` for `~` and `~1` for `/` in a member's name"
            ))
        };
    }
    let simple = |name: &str| {
        !name.is_empty()
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
    };
    if field.split('.').all(simple) {
        Ok(format!("/{}", field.replace('.', "/")))
    } else {
        Err(format!(
            "{field:?} names no field: write `id = \"event_id\"`, `id = \"data.event_id\"` or a JSON pointer, `id = \"/data/event_id\"`; `id = \"broker\"` takes the broker's own"
        ))
    }
}

/// A field name of RFC 9110, section 5.1, in lower case.
pub(crate) fn header_name(name: &str) -> Result<String, String> {
    // `tchar` of RFC 9110, section 5.6.2
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() {
        return Err("a header's name can't be empty".into());
    }
    if let Some(odd) = name.chars().find(|&c| !is_token(c)) {
        return Err(format!("{name:?} is no header name: it has {odd:?} in it"));
    }
    let lower = name.to_ascii_lowercase();
    if lower == "idempotency-key" {
        return Err(
            "`idempotency-key` is what requests are compared under; it is never compared itself"
                .into(),
        );
    }
    Ok(lower)
}

/// A JSON pointer of RFC 6901, or `?` and the name of a query parameter.
pub(crate) fn ignored_member(member: &str) -> Result<String, String> {
    if member == "?" {
        return Err("name the query parameter to ignore, as \"?utm_source\"".into());
    }
    if !member.starts_with(['/', '?']) {
        return Err(format!(
            "{member:?} must start with `/` (a member of the JSON body, \"/sent_at\") or `?` (a query parameter, \"?utm_source\")"
        ));
    }
    let escapes_end = |rest: &str| rest.starts_with(['0', '1']);
    if member.starts_with('/') && !member.split('~').skip(1).all(escapes_end) {
        return Err(format!(
            "{member:?} is no JSON pointer: write `~0` for `~` and `~1` for `/` in a member's name"
        ));
    }
    Ok(member.to_owned())
}

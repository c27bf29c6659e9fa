//! `multipart/form-data` (RFC 7578, RFC 2046), read strictly: what is not plainly well formed has no parts here and is
//! compared as bytes, since readers disagree about it.

use memchr::memmem;

use super::{
    media::{self, MediaType},
    sink::Sink,
};

/// One part: what its header section says, and its bytes.
pub(super) struct Part<'a> {
    /// The parameters of `Content-Disposition: form-data` (`name`, `filename`, `filename*`), sorted by name.
    disposition: Vec<media::Parameter<'a>>,
    content_type: Option<&'a [u8]>,
    /// Any other field, stably sorted by its name in lower case.
    others: Vec<(Vec<u8>, &'a [u8])>,
    content: &'a [u8],
}

/// The parts in order; `None` if the body is not clean multipart with the boundary that its media type names.
pub(super) fn parts<'a>(media: &MediaType<'_>, body: &'a [u8]) -> Option<Vec<Part<'a>>> {
    let parameters = media.parameters()?;
    let mut boundaries = parameters
        .iter()
        .filter(|parameter| parameter.name == b"boundary");
    let (Some(boundary), None) = (boundaries.next(), boundaries.next()) else {
        return None;
    };
    // RFC 2046, section 5.1.1; a backslash is no boundary character, so a quoted boundary needs no unescaping.
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(byte);
    if !(1..=70).contains(&boundary.value.len()) || !boundary.value.iter().all(allowed) {
        return None;
    }
    let delimiter = [b"\r\n--", boundary.value].concat();
    let finder = memmem::Finder::new(&delimiter);

    let mut found = Vec::new();
    let mut rest = body.strip_prefix(&delimiter[2..])?;
    loop {
        if let Some(epilogue) = rest.strip_prefix(b"--") {
            return matches!(epilogue, b"" | b"\r\n").then_some(found);
        }
        let section = rest.strip_prefix(b"\r\n")?;
        let end = finder.find(section)?;
        found.push(part(&section[..end])?);
        rest = &section[end + delimiter.len()..];
    }
}

/// Writes the number of parts, then each part with a length before everything in it.
pub(super) fn write_parts(sink: &mut Sink, parts: &[Part<'_>]) {
    sink.number(parts.len() as u64);
    for part in parts {
        sink.number(part.disposition.len() as u64);
        for parameter in &part.disposition {
            sink.prefixed(&parameter.name);
            sink.prefixed(parameter.value);
        }
        match part.content_type {
            Some(value) => {
                let end = value
                    .iter()
                    .position(|byte| *byte == b';')
                    .unwrap_or(value.len());
                sink.byte(1);
                sink.prefixed(&value[..end].trim_ascii().to_ascii_lowercase());
                sink.prefixed(&value[end..]);
            }
            None => sink.byte(0),
        }
        sink.number(part.others.len() as u64);
        for (name, value) in &part.others {
            sink.prefixed(name);
            sink.prefixed(value);
        }
        sink.prefixed(part.content);
    }
}

fn part(mut rest: &[u8]) -> Option<Part<'_>> {
    let mut disposition = None;
    let mut content_type = None;
    let mut others = Vec::new();
    loop {
        let end = memmem::find(rest, b"\r\n")?;
        let line = &rest[..end];
        rest = &rest[end + 2..];
        if line.is_empty() {
            break;
        }
        let name = media::token(line)?;
        let value = line[name.len()..].strip_prefix(b":")?.trim_ascii();
        let name = name.to_ascii_lowercase();
        let repeated = match &name[..] {
            b"content-disposition" => disposition.replace(form_data(value)?).is_some(),
            b"content-type" => content_type.replace(value).is_some(),
            _ => {
                others.push((name, value));
                false
            }
        };
        if repeated {
            return None;
        }
    }
    others.sort_by(|left, right| left.0.cmp(&right.0));
    Some(Part {
        disposition: disposition?,
        content_type,
        others,
        content: rest,
    })
}

/// The parameters of a `form-data` disposition: each at most once, a name among them.
fn form_data(value: &[u8]) -> Option<Vec<media::Parameter<'_>>> {
    let kind = media::token(value)?;
    let mut parameters = media::parameters(&value[kind.len()..])?;
    parameters.sort_by(|left, right| left.name.cmp(&right.name));
    let clean = kind.eq_ignore_ascii_case(b"form-data")
        && parameters.iter().any(|parameter| parameter.name == b"name")
        && parameters
            .windows(2)
            .all(|pair| pair[0].name != pair[1].name);
    clean.then_some(parameters)
}

//! The operation's request: a template, filled in for each key.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use bytes::Bytes;
use reqwest::Url;
use serde_json::Value;

use super::Unusable;
use super::plan::KeyPlan;
use super::template::Template;

/// The request as the user wrote it: everywhere `{number}` is the key's number, from 0, and `{key}` the key.
#[derive(Clone, Debug)]
pub struct Request {
    method: Method,
    urls: Vec<Template>,
    headers: Vec<(HeaderName, Template)>,
    key_header: HeaderName,
    bare: bool,
    body: Option<Template>,
    changed: Option<Template>,
}

/// The request of one key.
#[derive(Clone, Debug)]
pub(super) struct Filled {
    pub(super) method: Method,
    /// The same operation at each of the service's processes.
    pub(super) urls: Vec<Url>,
    /// The key among them.
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) changed: Bytes,
}

/// A field line, `name: value`.
///
/// # Errors
///
/// When it is none.
pub fn field(line: &str) -> Result<(HeaderName, String), String> {
    let (name, value) = line
        .split_once(':')
        .ok_or_else(|| "a field is written `name: value`".to_owned())?;
    let name = name
        .trim()
        .parse()
        .map_err(|_| format!("{:?} is no field name", name.trim()))?;
    HeaderValue::from_str(value.trim()).map_err(|_| format!("{name}: the value can't be sent"))?;
    Ok((name, value.trim().to_owned()))
}

impl Request {
    /// A request without fields and content, with the key in `Idempotency-Key`.
    pub fn new(method: Method, url: &str) -> Request {
        Request {
            method,
            urls: vec![Template::new(url)],
            headers: Vec::new(),
            key_header: HeaderName::from_static("idempotency-key"),
            bare: false,
            body: None,
            changed: None,
        }
    }

    /// The same operation at another process of the service: requests go to each in turn.
    #[must_use]
    pub fn also_at(mut self, url: &str) -> Request {
        self.urls.push(Template::new(url));
        self
    }

    /// One more field line.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: impl Into<String>) -> Request {
        self.headers.push((name, Template::new(value)));
        self
    }

    /// The field that the key is sent in; `bare`: without the quotation marks of RFC 9651.
    #[must_use]
    pub fn key_header(mut self, name: HeaderName, bare: bool) -> Request {
        (self.key_header, self.bare) = (name, bare);
        self
    }

    /// Its content. It is JSON, unless a field says otherwise.
    #[must_use]
    pub fn body(mut self, body: impl Into<String>) -> Request {
        self.body = Some(Template::new(body));
        self
    }

    /// The content that must be refused, once the key was used with the other.
    #[must_use]
    pub fn changed_body(mut self, body: impl Into<String>) -> Request {
        self.changed = Some(Template::new(body));
        self
    }

    pub(super) fn fill(&self, plan: &KeyPlan) -> Result<Filled, Unusable> {
        let fill = |template: &Template| template.fill(plan.number, &plan.key);
        let url = |template: &Template| {
            let url = fill(template);
            Url::parse(&url).map_err(|error| Unusable(format!("{url} is no URL: {error}")))
        };
        let urls = self.urls.iter().map(url).collect::<Result<Vec<Url>, _>>()?;
        let body = self.body.as_ref().map(fill);
        let changed = self.changed(plan, body.as_deref())?;
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let value = HeaderValue::from_str(&fill(value))
                .map_err(|_| Unusable(format!("{name}: the value can't be sent")))?;
            headers.append(name, value);
        }
        if body.is_some() && !headers.contains_key(header::CONTENT_TYPE) {
            let json = HeaderValue::from_static("application/json");
            headers.insert(header::CONTENT_TYPE, json);
        }
        let key = match self.bare {
            true => plan.key.clone(),
            false => format!("\"{}\"", plan.key),
        };
        let key = HeaderValue::from_str(&key).expect("a UUID can be sent");
        headers.insert(&self.key_header, key);
        Ok(Filled {
            method: self.method.clone(),
            urls,
            headers,
            body: body.unwrap_or_default().into(),
            changed: changed.into(),
        })
    }

    /// As given, or what another key's body would be, or the object with a member more.
    fn changed(&self, plan: &KeyPlan, body: Option<&str>) -> Result<String, Unusable> {
        let other = |template: &Template| template.fill(plan.number + 1, &plan.other_key);
        let changed = match (&self.changed, &self.body) {
            (Some(changed), _) => other(changed),
            (None, Some(template)) if template.varies() => other(template),
            (None, _) => match body.map(serde_json::from_str::<Value>) {
                Some(Ok(Value::Object(mut object))) => {
                    object.insert("changed".to_owned(), true.into());
                    Value::Object(object).to_string()
                }
                _ => format!("{} changed", body.unwrap_or_default()),
            },
        };
        if Some(changed.as_str()) == body {
            return Err(Unusable("the changed body is the body".to_owned()));
        }
        Ok(changed)
    }

    /// The fields of the first key's request but for the key, for whoever asks the same service something else.
    pub(super) fn plain_headers(&self, plan: &KeyPlan) -> Result<HeaderMap, Unusable> {
        let mut headers = self.fill(plan)?.headers;
        headers.remove(&self.key_header);
        headers.remove(header::CONTENT_TYPE);
        Ok(headers)
    }

    /// Whether the content names its key, so that an effect can.
    pub(super) fn names_key(&self) -> bool {
        let templates = self.body.iter().chain(&self.urls);
        let mut texts = templates.chain(self.headers.iter().map(|(_, value)| value));
        texts.any(|template| template.text().contains("{key}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hammer::plan::{Mix, Plan};

    fn key(number: u64) -> KeyPlan {
        let plan = Plan {
            seed: 1,
            mix: Mix::default(),
            sometimes: 0,
        };
        plan.key(number)
    }

    fn post(url: &str) -> Request {
        Request::new(Method::POST, url)
    }

    #[test]
    fn a_request_has_its_key_in_quotation_marks_or_bare() {
        let request = post("http://localhost/orders/{number}").body("{}");
        let filled = request.fill(&key(3)).expect("a request");
        assert_eq!(filled.urls[0].path(), "/orders/3");
        assert_eq!(
            filled.headers["idempotency-key"],
            format!("\"{}\"", key(3).key)
        );
        assert_eq!(filled.headers["content-type"], "application/json");
        let name = HeaderName::from_static("x-request-key");
        let bare = request.key_header(name, true).fill(&key(3));
        let bare = bare.expect("a request");
        assert_eq!(bare.headers["x-request-key"], key(3).key);
        assert!(!bare.headers.contains_key("idempotency-key"));
    }

    #[test]
    fn a_changed_body_differs_and_is_one_of_its_kind() {
        let changed = |request: Request| {
            let filled = request.fill(&key(3)).expect("a request");
            String::from_utf8(filled.changed.to_vec()).expect("text")
        };
        let url = "http://localhost/";
        assert_eq!(changed(post(url).body(r#"{"n":{number}}"#)), r#"{"n":4}"#);
        assert_eq!(
            changed(post(url).body(r#"{"a":1}"#)),
            r#"{"a":1,"changed":true}"#
        );
        assert_eq!(changed(post(url).body("plain")), "plain changed");
        assert_eq!(changed(post(url).body("a").changed_body("b")), "b");
        let same = post(url).body("a").changed_body("a").fill(&key(3));
        assert!(same.is_err());
    }

    #[test]
    fn a_field_is_a_name_and_a_value() {
        let (name, value) = field("Authorization: Bearer a:b").expect("a field");
        assert_eq!(
            (name.as_str(), value.as_str()),
            ("authorization", "Bearer a:b")
        );
        for wrong in ["authorization", ": x", "a b: c", "a: b\nc: d"] {
            assert!(field(wrong).is_err(), "{wrong:?}");
        }
    }
}
